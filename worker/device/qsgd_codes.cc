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

class QsgdCodes : public DeviceCodec {
 public:
  explicit QsgdCodes(const Context& context)
      : DeviceCodec(context), rule_(codec::QsgdLevels(context.layout.options.qsgd).rule()) {}

  Status Allocate() {
    TERN_RETURN_IF_ERROR(AllocateBytes());
    TERN_RETURN_IF_ERROR(grouped_.Make(
        context_.chunks, [this](const kernels::Part& part) { return BucketSizeOf(part); },
        [this](const kernels::Part& part) {
          return kernels::QsgdMaxSize(rule_, part.count, BucketSizeOf(part));
        },
        context_.compute));
    MaxSizes max;
    max.Include(context_.chunks);
    const uint64_t buckets = grouped_.max_groups();
    for (const Status& allocated :
         {partial_.Allocate(2 * max.tiles), done_.Allocate(max.tiles), norms_.Allocate(buckets),
          widths_.Allocate(buckets), bits_.Allocate(buckets), read_bits_.Allocate(buckets),
          levels_.Allocate(max.parts), chunk_done_.Allocate(1), size_.Allocate(1),
          bad_.Allocate(1)})
      TERN_RETURN_IF_ERROR(allocated);
    return Ok();
  }

  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale>,
                       const kernels::NoiseKey& noise) override {
    const kernels::QsgdCoding coding{rule_, context_.layout.options.qsgd.bucket,
                                     grouped_.groups(chunk), grouped_.ranges(chunk), noise};
    const kernels::QsgdWorkspace workspace{partial_.get(),   done_.get(), norms_.get(),
                                           widths_.get(),    bits_.get(), levels_.get(),
                                           chunk_done_.get()};
    TERN_RETURN_IF_ERROR(
        Check(kernels::QsgdOnDevice(context_.coding->get(), GradientsOf(noise.round),
                                    context_.chunks[chunk].tiling(), coding, workspace, code_.get(),
                                    RoundUpToWords(grouped_.bytes(chunk)), size_.get(), bad_.get()),
              "codes of QSGD"));
    return rule_.bits > 0 ? CopyCode(grouped_.bytes(chunk), bad_.get())
                          : CopyCodeOfSize(size_.get(), bad_.get());
  }

  Status Read(uint32_t chunk, const DeviceModel::Sums& sums, float* means, uint32_t* bad) override {
    TERN_RETURN_IF_ERROR(UploadSumsWithRanges(chunk, sums));
    return Check(kernels::ReadQsgdOnDevice(context_.compute->get(), context_.chunks[chunk].tiling(),
                                           sums_.get(), rule_, grouped_.groups(chunk),
                                           ranges_.get(), read_bits_.get(), means, bad),
                 "means of QSGD's codes");
  }

 private:
  // The number of elements in each bucket of the part.
  uint64_t BucketSizeOf(const kernels::Part& part) const {
    const uint64_t bucket = context_.layout.options.qsgd.bucket;
    return bucket == 0 ? part.count : bucket;
  }

  const kernels::QsgdRule rule_;
  GroupedChunks grouped_;
  Array<kernels::QsgdSums> partial_;
  Array<uint32_t> done_, chunk_done_, bad_;
  Array<float> norms_;
  Array<uint8_t> widths_;
  Array<uint64_t> bits_, read_bits_, levels_, size_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeQsgdCodes(const DeviceCodec::Context& context) {
  return MakeCodes<QsgdCodes>(context);
}

}  // namespace tern::device
