// The codec of QSGD on a GPU (kernels/codes/qsgd.h). The elements of each bucket (a run of
// neighbouring elements, as in the paper) are quantized relative to the bucket's norm.
#include "common/codec/qsgd_levels.h"
#include "kernels/codes/qsgd.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "worker/device/codecs.h"
#include "worker/device/groups.h"

namespace tern::device {
namespace {

class QsgdCodec : public DeviceCodec {
 public:
  explicit QsgdCodec(const Context& context)
      : DeviceCodec(context), rule_(codec::QsgdLevels(context.layout.options.qsgd).rule()) {}

  Status Allocate() {
    TERN_RETURN_IF_ERROR(AllocateBuffers());
    TERN_RETURN_IF_ERROR(grouped_chunks_.Make(
        context_.chunks, [this](const kernels::Part& part) { return BucketSizeOf(part); },
        [this](const kernels::Part& part) {
          return kernels::QsgdMaxSize(rule_, part.count, BucketSizeOf(part));
        },
        context_.compute_stream));
    MaxSizes max_sizes;
    max_sizes.Include(context_.chunks);
    const uint64_t max_buckets = grouped_chunks_.max_groups();
    for (const Status& allocate_status :
         {partial_sums_.Allocate(2 * max_sizes.tiles), tiles_done_.Allocate(max_sizes.tiles),
          norms_.Allocate(max_buckets), widths_.Allocate(max_buckets), bits_.Allocate(max_buckets),
          read_bits_.Allocate(max_buckets), levels_.Allocate(max_sizes.parts),
          chunk_done_.Allocate(1), size_.Allocate(1), bad_count_.Allocate(1)})
      TERN_RETURN_IF_ERROR(allocate_status);
    return Ok();
  }

  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale>,
                       const kernels::NoiseKey& noise) override {
    const kernels::QsgdCoding coding{rule_, context_.layout.options.qsgd.bucket,
                                     grouped_chunks_.groups(chunk), grouped_chunks_.ranges(chunk),
                                     noise};
    const kernels::QsgdWorkspace workspace{partial_sums_.get(), tiles_done_.get(), norms_.get(),
                                           widths_.get(),       bits_.get(),       levels_.get(),
                                           chunk_done_.get()};
    TERN_RETURN_IF_ERROR(CheckCuda(
        kernels::QsgdOnDevice(context_.coder_stream->get(), GradientsOf(noise.round),
                              context_.chunks[chunk].tiling(), coding, workspace, code_.get(),
                              RoundUpToWords(grouped_chunks_.max_code_bytes(chunk)), size_.get(),
                              bad_count_.get()),
        "codes of QSGD"));
    return rule_.bits > 0 ? CopyCode(grouped_chunks_.max_code_bytes(chunk), bad_count_.get())
                          : CopyCodeOfSize(size_.get(), bad_count_.get());
  }

  Status DecodeMeans(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                     uint32_t* bad_count) override {
    TERN_RETURN_IF_ERROR(UploadSumsWithRanges(chunk, sums));
    return CheckCuda(
        kernels::ReadQsgdOnDevice(context_.compute_stream->get(), context_.chunks[chunk].tiling(),
                                  sums_.get(), rule_, grouped_chunks_.groups(chunk), ranges_.get(),
                                  read_bits_.get(), means, bad_count),
        "means of QSGD's codes");
  }

 private:
  // The number of elements in each bucket of a part (a range of one tensor).
  uint64_t BucketSizeOf(const kernels::Part& part) const {
    const uint64_t bucket_size = context_.layout.options.qsgd.bucket;
    return bucket_size == 0 ? part.count : bucket_size;
  }

  const kernels::QsgdRule rule_;
  GroupedChunks grouped_chunks_;
  // size_ is the size of the code that one call of Encode makes; bad_count_ counts the buckets with
  // values that are not finite. The other arrays are workspace of the kernels.
  Array<kernels::QsgdSums> partial_sums_;
  Array<uint32_t> tiles_done_, chunk_done_, bad_count_;
  Array<float> norms_;
  Array<uint8_t> widths_;
  Array<uint64_t> bits_, read_bits_, levels_, size_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeQsgdCodes(const DeviceCodec::Context& context) {
  return MakeCodecOf<QsgdCodec>(context);
}

}  // namespace tern::device
