// The ternary codec on a GPU (kernels/codes/ternary.h). One call encodes a chunk, which consists of
// parts (ranges of one tensor): each element becomes -1, 0 or +1 times the scaler of its part. One
// pass over memory decodes a sum of codes and updates the weights.
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "kernels/update/update.h"
#include "worker/device/codecs.h"

namespace tern::device {
namespace {

class TernaryCodec : public DeviceCodec {
 public:
  using DeviceCodec::DeviceCodec;

  Status Allocate() {
    TERN_RETURN_IF_ERROR(AllocateBuffers());
    MaxSizes max_sizes;
    max_sizes.Include(context_.chunks);
    for (const Status& allocate_status :
         {tile_states_.Allocate(max_sizes.tiles), part_states_.Allocate(max_sizes.parts),
          num_finished_.Allocate(1), num_begun_.Allocate(1), size_.Allocate(1),
          scales_.Allocate(max_sizes.parts), sum_locations_.Allocate(max_sizes.parts)})
      TERN_RETURN_IF_ERROR(allocate_status);
    return Ok();
  }

  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override {
    return context_.stats->Compute(GradientsOf(noise.round), context_.buckets[bucket],
                                   context_.coder_stream);
  }

  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                       const kernels::NoiseKey& noise) override {
    TERN_RETURN_IF_ERROR(
        context_.coder_stream->CopyInNow(scales_.get(), scales.data(), scales.size_bytes()));
    const kernels::TernaryWorkspace workspace{tile_states_.get(), part_states_.get(),
                                              num_finished_.get(), num_begun_.get()};
    TERN_RETURN_IF_ERROR(
        CheckCuda(kernels::TernarizeOnDevice(context_.coder_stream->get(), GradientsOf(noise.round),
                                             context_.chunks[chunk].tiling(), scales_.get(), noise,
                                             workspace, code_.get(), size_.get()),
                  "ternary codes"));
    uint64_t max_bytes = 0;
    for (const kernels::TiledPart& tiled : context_.chunks[chunk].host_tiling.parts)
      max_bytes += context_.layout.codec->MaxEncodedSize(SegmentOf(tiled.part));
    return CopyCodeWithin(max_bytes, size_.get());
  }

  Status DecodeMeans(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                     uint32_t* bad_count) override {
    TERN_RETURN_IF_ERROR(UploadSumsWithScalers(chunk, sums));
    return CheckCuda(kernels::DecodeOnDevice(
                         context_.compute_stream->get(), context_.chunks[chunk].tiling(),
                         sums_.get(), sum_locations_.get(), sums.contributors, means, bad_count),
                     "means of ternary codes");
  }

  bool UpdatesInOnePass() const override { return true; }
  Status Update(uint32_t chunk, const DeviceModel::Sums& sums, const Step& step,
                uint32_t* bad_count) override {
    TERN_RETURN_IF_ERROR(UploadSumsWithScalers(chunk, sums));
    return CheckCuda(kernels::DecodeAndUpdateOnDevice(
                         context_.compute_stream->get(), context_.chunks[chunk].tiling(),
                         sums_.get(), sum_locations_.get(), sums.contributors, step.coefficients,
                         step.rates, step.model, bad_count),
                     "an update of the weights");
  }

 private:
  // Copies the encoded sum to the device, and the place and scaler of each part's sum.
  Status UploadSumsWithScalers(uint32_t chunk, const DeviceModel::Sums& sums) {
    const auto ranges = RangesOf(chunk, sums);
    if (!ranges.ok()) return ranges.status();
    std::vector<kernels::SumLocation> locations;
    for (size_t i = 0; i < ranges->size(); ++i)
      locations.push_back({(*ranges)[i].begin, sums.scalers[i]});
    TERN_RETURN_IF_ERROR(UploadSums(sums));
    return context_.compute_stream->CopyInNow(sum_locations_.get(), locations.data(),
                                              locations.size() * sizeof(kernels::SumLocation));
  }

  // size_ is the size of a chunk's code, scales_ the scaler and clip of each part, and
  // sum_locations_ the place and scaler of each part's sum. The other arrays are workspace of the
  // kernel that encodes.
  Array<uint64_t> tile_states_, part_states_, size_;
  Array<uint32_t> num_finished_, num_begun_;
  Array<kernels::TernaryScale> scales_;
  Array<kernels::SumLocation> sum_locations_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeTernaryCodes(const DeviceCodec::Context& context) {
  return MakeCodecOf<TernaryCodec>(context);
}

}  // namespace tern::device
