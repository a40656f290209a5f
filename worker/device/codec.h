// A codec (common/codec) for gradients on a GPU: produces the same bytes as the codec, and decodes
// the means of sums. Internal to worker/device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/update/optimizer_math.h"
#include "kernels/update/update.h"
#include "worker/device/device_model.h"
#include "worker/device/parts.h"

namespace tern::device {

// Rounds a number of bytes up to whole 32-bit words, because kernels read and write rows of codes
// as words.
constexpr uint64_t Words(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

class DeviceCodec {
 public:
  // What all device codecs use; outlives them. `buckets` and `chunks` are those of the layout.
  struct Context {
    const DeviceModel::Layout& layout;
    const Groups &buckets, &chunks;
    std::vector<const float*> gradients;  // by round, modulo their number
    Stream* coding;                       // the coder's stream
    Stream* compute;                      // the compute thread's stream
    StatsWorkspace* stats;                // the coder's
  };
  explicit DeviceCodec(const Context& context) : context_(context) {}
  virtual ~DeviceCodec() = default;

  // --- Called by the coder thread, through the functions of DeviceCodes with the same names.
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise);
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // The arena that holds a round's values to encode, if it is known in advance.
  virtual const float* CodedArena(uint64_t round) const { return GradientsOf(round); }
  const float* GradientsOf(uint64_t round) const {
    return context_.gradients[round % context_.gradients.size()];
  }
  // The arenas of the codec's memory.
  virtual std::vector<float*> MemoryArenas() const { return {}; }

  // --- Called by the compute thread. Read decodes the means of sums into their parts of the arena
  // `means`, and increments *bad for invalid sums.
  virtual Status Read(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                      uint32_t* bad) = 0;
  // Update also applies an optimizer step with the means, in one pass, if UpdatesInOnePass().
  struct Step {
    const kernels::UpdateStep& numbers;
    const kernels::TensorRates* rates;  // on the device
    kernels::ModelArenas model;
  };
  virtual bool UpdatesInOnePass() const { return false; }
  virtual Status Update(uint32_t chunk, const DeviceModel::Sums& sums, const Step& step,
                        uint32_t* bad);

 protected:
  // Allocates the buffers for a chunk's code and for its sums. Call before other allocations.
  Status AllocateBytes();
  codec::Segment SegmentOf(const kernels::Part& part) const {
    return {part.tensor, part.first, part.count, context_.layout.columns[part.tensor]};
  }
  // The byte range of each of the chunk's segments in its sums; kMismatch if the sizes do not add
  // up.
  Result<std::vector<kernels::CodeRange>> RangesOf(uint32_t chunk, const DeviceModel::Sums& sums);
  // Copies the sums to sums_ on the device; UploadSumsWithRanges also copies the result of RangesOf
  // to ranges_.
  Status UploadSums(const DeviceModel::Sums& sums);
  Status UploadSumsWithRanges(uint32_t chunk, const DeviceModel::Sums& sums);
  // Copies the first `size` bytes of code_ to the host once the stream reaches this point. `size`
  // may be on the device. *bad: device counter of non-finite values; kDiverged if it is not 0.
  Result<Bytes> CopyCode(uint64_t size, uint32_t* bad = nullptr);
  Result<Bytes> CopyCodeOfSize(const uint64_t* size, uint32_t* bad = nullptr);
  // As CopyCodeOfSize, for a code of at most `max` bytes: copies `max` bytes, with one wait instead
  // of two.
  Result<Bytes> CopyCodeWithin(uint64_t max, const uint64_t* size);

  const Context context_;
  Array<uint8_t> code_, sums_;
  uint64_t max_sums_bytes_ = 0;  // size of sums_
  Array<kernels::CodeRange> ranges_;

 private:
  // The first `size` bytes of the slab; the slab returns to the pool when the last reference is
  // dropped.
  Bytes Share(PinnedPool::Slab slab, uint64_t size);

  std::shared_ptr<PinnedPool> pool_;  // buffers of codes that are being sent
};

}  // namespace tern::device
