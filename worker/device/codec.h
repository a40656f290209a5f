// The interface to a codec's implementation on a GPU. It encodes gradients to the same bytes as the
// codec's implementation on the CPU (common/codec), and decodes a sum of the workers' codes to the
// mean gradient. Internal to worker/device.
//
// Words used here: an arena is one array with all elements of the model. A bucket is a group of
// neighbouring tensors; it is divided into chunks, each encoded by itself. A part is a range of one
// tensor within a bucket or a chunk.
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
#include "worker/device/sum_memory.h"

namespace tern::device {

// Rounds a number of bytes up to a multiple of 4, because kernels read and write codes as 32-bit
// words.
constexpr uint64_t RoundUpToWords(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

// Returns the part as a segment, which is what common/codec calls a range of a tensor.
inline codec::Segment SegmentOf(const DeviceModel::Layout& layout, const kernels::Part& part) {
  return {part.tensor, part.first, part.count, layout.columns[part.tensor]};
}
// Returns the bytes of the largest encoded sum of a chunk, rounded up to words.
uint64_t MaxSumBytes(const DeviceModel::Layout& layout);

class DeviceCodec {
 public:
  // What every device codec needs. All objects to which a Context refers must outlive the codec.
  struct Context {
    const DeviceModel::Layout& layout;
    const Groups &buckets, &chunks;  // The parts of each bucket and of each chunk of the layout.
    // Arenas of gradients on the device. The gradients of round r (the r-th exchange with the
    // servers) are in the arena with index r modulo the number of arenas.
    std::vector<const float*> gradients;
    Stream* coder_stream;    // The stream of the thread that encodes.
    Stream* compute_stream;  // The stream of the thread that trains.
    StatsComputer* stats;    // Computes statistics on the stream `coder_stream`.
    SumMemory* sums;         // Where sums may have been placed when they arrived.
  };
  // A function that makes a codec.
  using Maker = Result<std::unique_ptr<DeviceCodec>> (*)(const Context& context);
  explicit DeviceCodec(const Context& context) : context_(context) {}
  virtual ~DeviceCodec() = default;

  // --- Called by the coder thread (which encodes). Prepare and Encode do the same as the functions
  // of these names in DeviceCodes (device_codes.h).
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise);
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // The arena to check for values that cannot be encoded, after Encode. If a value that was encoded
  // in the round is not finite, the arena's value of that element is not finite either. By default,
  // the arena of the gradients.
  virtual const float* ArenaToCheck(uint64_t round) const { return GradientsOf(round); }
  // The arena with the values that the bucket's codes stand for: by default the gradients.
  virtual Result<const float*> ValuesToCode(uint64_t round, uint32_t /*bucket*/) {
    return GradientsOf(round);
  }
  // The arena of a round's gradients.
  const float* GradientsOf(uint64_t round) const {
    return context_.gradients[round % context_.gradients.size()];
  }
  // The arenas with the state that the codec keeps from round to round; none by default.
  virtual std::vector<float*> MemoryArenas() const { return {}; }

  // --- Called by the compute thread (which trains).

  // Decodes the sum of a chunk's codes over the workers, and writes the mean of the workers'
  // gradients to the chunk's elements of the arena `means`. Increments *bad_count, a counter on the
  // device, if the sum is invalid.
  virtual Status DecodeMeans(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                             uint32_t* bad_count) = 0;
  // An optimizer step.
  struct Step {
    const kernels::UpdateStep& coefficients;  // The optimizer's coefficients in this step.
    const kernels::TensorRates* rates;        // One per part of the chunk, on the device.
    kernels::ModelArenas model;
  };
  // Update decodes like DecodeMeans and applies an optimizer step with the means, in one pass over
  // the memory. REQUIRES UpdatesInOnePass().
  virtual bool UpdatesInOnePass() const { return false; }
  virtual Status Update(uint32_t chunk, const DeviceModel::Sums& sums, const Step& step,
                        uint32_t* bad_count);

 protected:
  // Allocates code_, sums_ and ranges_ for the largest chunk. Subclasses call it first in Allocate.
  Status AllocateBuffers();
  codec::Segment SegmentOf(const kernels::Part& part) const {
    return device::SegmentOf(context_.layout, part);
  }
  // The byte range of each of the chunk's segments in the encoded sum `sums`. kMismatch if the
  // segments do not have sums.bytes.size() bytes together, or if these do not fit into sums_.
  Result<std::vector<kernels::CodeRange>> RangesOf(uint32_t chunk, const DeviceModel::Sums& sums);
  // UploadSums copies the encoded sum to sums_ on the device. UploadSumsWithRanges also copies the
  // result of RangesOf to ranges_.
  Status UploadSums(const DeviceModel::Sums& sums);
  Status UploadSumsWithRanges(uint32_t chunk, const DeviceModel::Sums& sums);
  // Waits until the launched work of the stream `coder_stream` is done, and returns the first
  // `size` bytes of code_ in host memory. `bad_count`: a counter of non-finite values on the
  // device, or null; kDiverged if it is not 0.
  Result<Bytes> CopyCode(uint64_t size, uint32_t* bad_count = nullptr);
  // The same as CopyCode for a code whose size is in device memory, at *device_size.
  Result<Bytes> CopyCodeOfSize(const uint64_t* device_size, uint32_t* bad_count = nullptr);
  // The same as CopyCodeOfSize for a code of at most `max_size` bytes. It copies `max_size` bytes,
  // so that it waits once instead of twice.
  Result<Bytes> CopyCodeWithin(uint64_t max_size, const uint64_t* device_size);

  const Context context_;
  Array<uint8_t> code_, sums_;        // One chunk's code, and one chunk's encoded sum.
  uint64_t max_sums_bytes_ = 0;       // The size of sums_.
  Array<kernels::CodeRange> ranges_;  // The byte ranges of the segments in sums_.

 private:
  // Returns the first `size` bytes of the buffer `slab`, without a copy. The buffer returns to the
  // pool when the last reference to the bytes is dropped.
  Bytes BytesOfSlab(PinnedPool::Slab slab, uint64_t size);

  std::shared_ptr<PinnedPool> pool_;  // Page-locked buffers for codes that are being sent.
  PinnedMemory host_size_;            // Receives a code's size, a uint64_t.
};

}  // namespace tern::device
