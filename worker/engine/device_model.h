// A model that stays on a GPU while it trains there: weights, what the optimizer keeps of them, and
// gradients. Codes are made of the gradients, and sums of codes go into the weights, where they
// lie; only codes, sums and scalers travel. Ternary codes as kernels/device.h makes them.
//
// Threads: the compute thread calls Send, Bring, AddDecay, Update and the nets that train on it,
// all of one stream; another one, the coder, StatsOf and Encode. A device that refuses something is
// reported by each call from then on; kPeerLost names the call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "kernels/device.h"

namespace tern::engine {

class DeviceModel {
 public:
  // Elements as kernels::Part has them; `chunk` is of no matter.
  struct Layout {
    uint64_t elements = 0;
    uint32_t slots = 0;                               // arenas that the optimizer keeps, at most 2
    std::vector<std::vector<kernels::Part>> buckets;  // what StatsOf is asked of, in order
    std::vector<std::vector<kernels::Part>> chunks;   // what Encode and Update are
  };
  // Zeros. kBadJob where there is no GPU, or not so much room.
  static Result<std::unique_ptr<DeviceModel>> Make(const Layout& layout);
  virtual ~DeviceModel() = default;

  // Copies of the caller's, in its memory: weights, and slots in the optimizer's order.
  struct Host {
    float* weights = nullptr;
    std::vector<float*> slots;
  };
  virtual Status Send(const Host& from) = 0;
  // Waits for what is under way.
  virtual Status Bring(const Host& to) = 0;

  // g += decay w over elements [begin, begin + count).
  virtual Status AddDecay(uint64_t begin, uint64_t count, float decay) = 0;
  // One step of a chunk's elements by the sums of so many workers' codes: their planes (planes.h),
  // segment after segment; scalers and rates by segment. kMismatch for another number of bytes.
  // Sums that cannot be are found by CheckSums.
  virtual Status Update(uint32_t chunk, std::span<const uint8_t> planes, uint32_t contributors,
                        std::span<const float> scalers, const kernels::UpdateStep& step,
                        std::span<const kernels::TensorRates> rates) = 0;
  // Of all updates so far; waits for them. kMismatch where there were some.
  virtual Status CheckSums() = 0;

  // By part of the bucket, of gradients that are ready.
  virtual Result<std::vector<kernels::Stats>> StatsOf(uint32_t bucket) = 0;
  // The chunk's code, in memory that the device writes and a socket may send from: scales by
  // segment; the tensor of `noise` is each segment's.
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
};

}  // namespace tern::engine
