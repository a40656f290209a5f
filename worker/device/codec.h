// A codec (common/codec) on a worker whose gradients are on a GPU: codes a model's gradients, byte
// by byte as the codec does, and decodes the means of sums. Internal to the engine.
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

// Rounds up to whole words: rows of codes are read and written as words.
constexpr uint64_t Words(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

class DeviceCodec {
 public:
  // What all of them use; it outlives them. Groups as in the layout.
  struct Work {
    const DeviceModel::Layout& layout;
    const Groups &buckets, &chunks;
    std::vector<const float*> gradients;  // by round, modulo their number
    Stream* coding;                       // of the coder
    Stream* compute;                      // of the compute thread
    StatsRoom* stats;                     // of the coder
  };
  explicit DeviceCodec(const Work& work) : work_(work) {}
  virtual ~DeviceCodec() = default;

  // --- The coder's calls, as in DeviceModel.
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise);
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // The arena that is coded in a round, if it is known in advance.
  virtual const float* CodedIn(uint64_t round) const { return GradientsOf(round); }
  const float* GradientsOf(uint64_t round) const {
    return work_.gradients[round % work_.gradients.size()];
  }
  // The arenas of its memory.
  virtual std::vector<float*> Kept() const { return {}; }

  // --- The compute thread's calls. Read decodes the means of sums into their places in the arena;
  // increments *bad for invalid sums.
  virtual Status Read(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                      uint32_t* bad) = 0;
  // Update also applies a step with them, in one pass, if UpdatesAtOnce().
  struct Step {
    const kernels::UpdateStep& numbers;
    const kernels::TensorRates* rates;  // on the device
    kernels::ModelArenas model;
  };
  virtual bool UpdatesAtOnce() const { return false; }
  virtual Status Update(uint32_t chunk, const DeviceModel::Sums& sums, const Step& step,
                        uint32_t* bad);

 protected:
  // Allocates the buffers of a chunk's code and of its sums. Call before other allocations.
  Status AllocateBytes();
  codec::Segment SegmentOf(const kernels::Part& part) const {
    return {part.tensor, part.first, part.count, work_.layout.columns[part.tensor]};
  }
  // The place of each of the chunk's segments in its sums; kMismatch if they are not a row of sums.
  Result<std::vector<kernels::CodePlace>> PlacesOf(uint32_t chunk, const DeviceModel::Sums& sums);
  // Copies the sums to sums_, and the result of PlacesOf to places_.
  Status BringUp(const DeviceModel::Sums& sums);
  Status BringUpWithPlaces(uint32_t chunk, const DeviceModel::Sums& sums);
  // Copies the first `size` bytes of code_ to the host once the stream reaches this point. `size`
  // may be on the device. *bad: device counter of non-finite values; kDiverged if it is not 0.
  Result<Bytes> Take(uint64_t size, uint32_t* bad = nullptr);
  Result<Bytes> TakeOf(const uint64_t* size, uint32_t* bad = nullptr);
  // The same, if the size is at most `most`: copies `most` bytes, with one wait instead of two.
  Result<Bytes> TakeWithin(uint64_t most, const uint64_t* size);

  const Work work_;
  Array<uint8_t> code_, sums_;
  uint64_t most_sums_ = 0;  // bytes of sums_
  Array<kernels::CodePlace> places_;

 private:
  // The slab's first bytes; the slab returns to the pool when the last reference is dropped.
  Bytes Share(PinnedPool::Slab slab, uint64_t size);

  std::shared_ptr<PinnedPool> pool_;  // of codes being sent
};

}  // namespace tern::device
