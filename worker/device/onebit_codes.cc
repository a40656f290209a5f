// The codec of 1bitSGD on a GPU (kernels/codes/onebit.h). Each element is sent as one bit, which
// selects one of the two means of its group of elements. What the code loses, the residual, is
// added to the next gradient (error feedback).
#include <algorithm>

#include "kernels/codes/onebit.h"
#include "kernels/codes/onebit_math.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "worker/device/codecs.h"
#include "worker/device/groups.h"

namespace tern::device {
namespace {

class OneBitCodec : public DeviceCodec {
 public:
  using DeviceCodec::DeviceCodec;

  Status Allocate() {
    TERN_RETURN_IF_ERROR(AllocateBuffers());
    TERN_RETURN_IF_ERROR(grouped_chunks_.Make(
        context_.chunks, [this](const kernels::Part& part) { return GroupSizeOf(part); },
        [this](const kernels::Part& part) {
          return kernels::OneBitSize(part.count, GroupSizeOf(part));
        },
        context_.compute_stream));
    MaxSizes max_sizes;
    max_sizes.Include(context_.chunks);
    for (const Status& allocate_status :
         {residual_.Allocate(context_.layout.elements), partial_sums_.Allocate(2 * max_sizes.tiles),
          tiles_done_.Allocate(max_sizes.tiles), means_.Allocate(2 * grouped_chunks_.max_groups()),
          bad_count_.Allocate(1)})
      TERN_RETURN_IF_ERROR(allocate_status);
    return Ok();
  }

  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale>,
                       const kernels::NoiseKey& noise) override {
    TERN_RETURN_IF_ERROR(CheckCuda(
        kernels::OneBitOnDevice(context_.coder_stream->get(), GradientsOf(noise.round),
                                residual_.get(), context_.chunks[chunk].tiling(),
                                grouped_chunks_.groups(chunk), grouped_chunks_.ranges(chunk),
                                {partial_sums_.get(), tiles_done_.get(), means_.get()}, code_.get(),
                                bad_count_.get()),
        "codes of one bit"));
    return CopyCode(grouped_chunks_.max_code_bytes(chunk), bad_count_.get());
  }
  // For the check that the encoded values were finite. Returns the residual, because the encoded
  // values are not stored: the residual is not finite wherever an encoded value was not.
  const float* ArenaToCheck(uint64_t) const override { return residual_.get(); }
  std::vector<float*> MemoryArenas() const override { return {residual_.get()}; }

  Status DecodeMeans(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                     uint32_t* bad_count) override {
    TERN_RETURN_IF_ERROR(UploadSumsWithRanges(chunk, sums));
    return CheckCuda(
        kernels::ReadOneBitOnDevice(context_.compute_stream->get(), context_.chunks[chunk].tiling(),
                                    sums_.get(), grouped_chunks_.groups(chunk), ranges_.get(),
                                    means, bad_count),
        "means of one bit's codes");
  }

 private:
  // The number of elements in each group of a part (a range of one tensor).
  uint64_t GroupSizeOf(const kernels::Part& part) const {
    const uint64_t bucket_elements = context_.layout.options.keys.onebit().bucket_elements();
    return std::max<uint64_t>(1, bucket_elements == 0 ? SegmentOf(part).column : bucket_elements);
  }

  GroupedChunks grouped_chunks_;
  // bad_count_ counts the groups with values that are not finite. means_, partial_sums_ and
  // tiles_done_ are workspace of the kernel.
  Array<float> residual_, means_;
  Array<kernels::OneBitSums> partial_sums_;
  Array<uint32_t> tiles_done_, bad_count_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeOneBitCodes(const DeviceCodec::Context& context) {
  return MakeCodecOf<OneBitCodec>(context);
}

}  // namespace tern::device
