// What a codec (common/codec) does on a worker, where the gradients lie on a GPU: codes of a
// model's gradients, byte by byte the codec's, and means of sums. Internal to the engine.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/device_codes.h"
#include "worker/engine/device_model.h"
#include "worker/engine/device_parts.h"

namespace tern::engine::cuda {

// Rows of codes are read and written as whole words.
constexpr uint64_t Words(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

class DeviceCodec {
 public:
  // What all of them work with; it outlives them. Groups as the layout's.
  struct Work {
    const DeviceModel::Layout& layout;
    const Groups &buckets, &chunks;
    std::vector<const float*> gradients;  // by round, over and over
    Stream* coding;                       // the coder's
    Stream* compute;                      // the compute thread's
    StatsRoom* stats;                     // the coder's
  };
  // Of layout.codec. REQUIRES DeviceModel::Codes of it.
  static Result<std::unique_ptr<DeviceCodec>> Make(const Work& work);
  explicit DeviceCodec(const Work& work) : work_(work) {}
  virtual ~DeviceCodec() = default;

  // The coder's, as DeviceModel's.
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise);
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // The arena that is coded in a round, as far as it is known before.
  virtual const float* CodedIn(uint64_t round) const { return GradientsOf(round); }
  const float* GradientsOf(uint64_t round) const {
    return work_.gradients[round % work_.gradients.size()];
  }
  // Arenas of what it keeps.
  virtual std::vector<float*> Kept() const { return {}; }

  // The compute thread's. Means of sums to their places in the arena; `bad` goes up for sums that
  // cannot be.
  virtual Status Read(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                      uint32_t* bad) = 0;
  // The same, and a step by them, in one pass, where that is done.
  struct Step {
    const kernels::UpdateStep& numbers;
    const kernels::TensorRates* rates;  // on the device
    kernels::ModelArenas model;
  };
  virtual bool UpdatesAtOnce() const { return false; }
  virtual Status Update(uint32_t chunk, const DeviceModel::Sums& sums, const Step& step,
                        uint32_t* bad);

 protected:
  // Room for a chunk's code and for its sums. The first of all that is allocated.
  Status AllocateBytes();
  codec::Segment SegmentOf(const kernels::Part& part) const {
    return {part.tensor, part.first, part.count, work_.layout.columns[part.tensor]};
  }
  // Where each of the chunk's segments is in its sums; kMismatch where they are no row of sums.
  Result<std::vector<kernels::CodePlace>> PlacesOf(uint32_t chunk, const DeviceModel::Sums& sums);
  // To sums_; and PlacesOf them to places_.
  Status BringUp(const DeviceModel::Sums& sums);
  Status BringUpWithPlaces(uint32_t chunk, const DeviceModel::Sums& sums);
  // The first so many bytes of code_ when the stream has come so far; `size` and `bad`, how many
  // values are not finite, on the device. kDiverged where there are some.
  Result<Bytes> Take(uint64_t size, uint32_t* bad = nullptr);
  Result<Bytes> TakeOf(const uint64_t* size, uint32_t* bad = nullptr);
  // The same of at most so many bytes, which all travel: one wait instead of two.
  Result<Bytes> TakeWithin(uint64_t most, const uint64_t* size);

  const Work work_;
  Array<uint8_t> code_, sums_;
  uint64_t most_sums_ = 0;  // bytes of that
  Array<kernels::CodePlace> places_;

 private:
  // The slab's first bytes; it goes back to the pool with the last who has them.
  Bytes Share(PinnedPool::Slab slab, uint64_t size);

  std::shared_ptr<PinnedPool> pool_;  // codes on their way
};

}  // namespace tern::engine::cuda
