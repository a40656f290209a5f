// A codec with a rotation before it (kernels/codes/rotate.h) on a GPU: rotates gradients to an
// arena of its own, which another device codec encodes, and rotates the means back that this one
// decodes.
#include <string_view>
#include <vector>

#include "kernels/codes/rotate.h"
#include "worker/device/codecs.h"

namespace tern::device {
namespace {

class RotatedCodes : public DeviceCodec {
 public:
  explicit RotatedCodes(const Context& context)
      : DeviceCodec(context),
        rotation_{.seed = context.layout.options.seed, .block = context.layout.options.rotate},
        rotated_round_(context.buckets.size(), kNoRound) {
    for (const Group& chunk : context.chunks) bucket_of_chunk_.push_back(BucketOf(chunk));
  }

  Status Allocate(Maker make_inner) {
    std::vector<const float*> rotated;
    rotated_.resize(context_.gradients.size());
    for (Array<float>& arena : rotated_) {
      TERN_RETURN_IF_ERROR(arena.Allocate(context_.layout.elements));
      rotated.push_back(arena.get());
    }
    auto inner =
        make_inner({context_.layout, context_.buckets, context_.chunks, rotated,
                    context_.coder_stream, context_.compute_stream, context_.stats, context_.sums});
    if (!inner.ok()) return inner.status();
    inner_ = std::move(*inner);
    return Ok();
  }

  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override {
    TERN_RETURN_IF_ERROR(RotateBucket(noise.round, bucket));
    return inner_->Prepare(bucket, noise);
  }
  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                       const kernels::NoiseKey& noise) override {
    TERN_RETURN_IF_ERROR(EnsureRotated(noise.round, bucket_of_chunk_[chunk]));
    return inner_->Encode(chunk, scales, noise);
  }
  // A value of a block that is not finite makes the whole rotated block so.
  const float* ArenaToCheck(uint64_t round) const override { return inner_->ArenaToCheck(round); }
  Result<const float*> ValuesToCode(uint64_t round, uint32_t bucket) override {
    TERN_RETURN_IF_ERROR(EnsureRotated(round, bucket));
    return inner_->ValuesToCode(round, bucket);
  }
  Status DecodeMeans(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                     uint32_t* bad_count) override {
    TERN_RETURN_IF_ERROR(inner_->DecodeMeans(chunk, sums, means, bad_count));
    return CheckCuda(
        kernels::RotateBackOnDevice(context_.compute_stream->get(), context_.chunks[chunk].tiling(),
                                    rotation_, means, bad_count),
        "means rotated back");
  }

 private:
  static constexpr uint64_t kNoRound = ~uint64_t{0};

  // The bucket whose elements the chunk's are.
  uint32_t BucketOf(const Group& chunk) const {
    const kernels::Part& part = chunk.part(0);
    for (uint32_t b = 0; b < context_.buckets.size(); ++b) {
      const Group& bucket = context_.buckets[b];
      const kernels::Part& last = bucket.part(bucket.size() - 1);
      if (part.begin >= bucket.part(0).begin && part.begin < last.begin + last.count) return b;
    }
    return 0;
  }
  Status RotateBucket(uint64_t round, uint32_t bucket) {
    float* rotated = rotated_[round % rotated_.size()].get();
    rotated_round_[bucket] = round;
    return CheckCuda(
        kernels::RotateOnDevice(context_.coder_stream->get(), context_.buckets[bucket].tiling(),
                                rotation_, GradientsOf(round), rotated),
        "rotated gradients");
  }
  // For codes without Prepare: those that are made again.
  Status EnsureRotated(uint64_t round, uint32_t bucket) {
    return rotated_round_[bucket] == round ? Ok() : RotateBucket(round, bucket);
  }

  const kernels::Rotation rotation_;
  std::vector<uint32_t> bucket_of_chunk_;
  std::vector<uint64_t> rotated_round_;  // of each bucket, the round that was rotated last
  std::vector<Array<float>> rotated_;    // arenas, one for each of the context's gradients
  std::unique_ptr<DeviceCodec> inner_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeRotatedCodes(const DeviceCodec::Context& context,
                                                      DeviceCodec::Maker make_inner) {
  auto codes = std::make_unique<RotatedCodes>(context);
  TERN_RETURN_IF_ERROR(codes->Allocate(make_inner));
  return std::unique_ptr<DeviceCodec>(std::move(codes));
}

}  // namespace tern::device
