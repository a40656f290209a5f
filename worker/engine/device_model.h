// A model that stays on a GPU while it trains there: weights, what the optimizer keeps of them,
// their moving average, gradients, and what the codec keeps of those. Codes are made of the
// gradients, and sums of codes go into the weights, where they lie; only codes, sums and scalers
// travel.
//
// Threads: the compute thread makes the steps of the nets that train on it, all on one stream, and
// another one, the coder, the codes; whose a call is, is said. A device that refuses something is
// reported by each call from then on; kPeerLost names the call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/codec/codec.h"
#include "kernels/device.h"

namespace tern::engine {

class DeviceModel {
 public:
  // What an algorithm that trains elsewhere than at W has of its own, each as the model: w', where
  // nets that train take their gradients; the W of before; and the state of its local updater.
  enum class Local { kPoint, kBefore, kVelocity, kMeanSquare };
  // Elements as kernels::Part has them; `chunk` is of no matter.
  struct Layout {
    uint64_t elements = 0;
    uint32_t slots = 0;        // arenas that the optimizer keeps, at most 2
    bool average = false;      // there is one
    std::vector<Local> local;  // that there are
    uint32_t rounds = 1;  // whose gradients are wanted at a time; of more than one: KeepGradients
    std::vector<std::vector<kernels::Part>> buckets;  // what StatsOf is asked of, in order
    std::vector<std::vector<kernels::Part>> chunks;   // what Encode and Update are
    std::vector<uint64_t> columns;                    // by tensor, as codec::Segment's
    uint32_t workers = 1;                             // that a sum is of, at most
    const codec::Codec* codec = nullptr;              // of all tensors; it outlives the model
    codec::Options options;                           // that it was made with
  };
  // Whether there are kernels for the codec, and what it keeps; a model's is one of those.
  static bool Codes(const codec::Codec& codec);
  // Zeros. kBadJob where there is no GPU, or not so much room.
  static Result<std::unique_ptr<DeviceModel>> Make(const Layout& layout);
  virtual ~DeviceModel() = default;

  // --- The compute thread's.

  // Copies of the caller's, in its memory: weights, slots in the optimizer's order, and the average
  // where there is one.
  struct Host {
    float* weights = nullptr;
    std::vector<float*> slots;
    float* average = nullptr;
  };
  virtual Status Send(const Host& from) = 0;
  // Waits for what is under way.
  virtual Status Bring(const Host& to) = 0;

  // g += decay w over elements [begin, begin + count), w where gradients are taken.
  virtual Status AddDecay(uint64_t begin, uint64_t count, float decay) = 0;
  // Of all gradients, as kernels/stats.h adds them up; waits. And g *= factor.
  virtual Result<double> SquaresOfGradients() = 0;
  virtual Status ScaleGradients(float factor) = 0;

  // Gradients of a bucket that are ready stay as they are for the round's codes, while others come
  // in their place.
  virtual Status KeepGradients(uint64_t round, uint32_t bucket) = 0;

  // W to one of the others; and those, of all elements, from here and to here.
  virtual Status CopyWeights(Local to) = 0;
  virtual Status SendLocal(Local to, const float* from) = 0;
  virtual Status BringLocal(Local from, float* to) = 0;
  // w' = W + U_local(g) of all tensors; their weight decay, by tensor.
  virtual Status MoveLocally(const kernels::LocalStep& step, std::span<const float> decay) = 0;

  // What has come back of so many workers' codes of a chunk: bytes as the codec's sums, segment
  // after segment, and the segments' scalers.
  struct Sums {
    std::span<const uint8_t> bytes;
    uint32_t contributors = 0;
    std::span<const float> scalers;
  };
  // One step of the chunk's elements; rates by segment. kMismatch for another number of bytes. Sums
  // that cannot be are found by CheckSums.
  virtual Status Update(uint32_t chunk, const Sums& sums, const kernels::UpdateStep& step,
                        std::span<const kernels::TensorRates> rates) = 0;
  // The same for rules that look at whole tensors. All gradients of a bucket's parts are 0 after
  // ClearMeans and what came after ReadMeans; Squares tells of them and of the weights, by part,
  // and waits; then comes a step, with rates by part.
  virtual Status ClearMeans(uint32_t bucket) = 0;
  virtual Status ReadMeans(uint32_t chunk, const Sums& sums) = 0;
  struct Squares {
    double weights = 0, means = 0;
  };
  virtual Result<std::vector<Squares>> SquaresOf(uint32_t bucket) = 0;
  virtual Status UpdateBucket(uint32_t bucket, const kernels::UpdateStep& step,
                              std::span<const kernels::TensorRates> rates) = 0;
  // The moving average of elements [begin, begin + count) (kernels::EmaUpdate).
  virtual Status Average(uint64_t begin, uint64_t count, float one_minus_decay) = 0;
  // Of all sums so far; waits for them. kMismatch where there were some that cannot be.
  virtual Status CheckSums() = 0;

  // --- The coder's.

  // Before the chunks of a bucket are coded, of gradients that are ready: statistics of what is to
  // be coded, by part. Empty where the codec does not look at them. `noise` as Encode's.
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise) = 0;
  // The same of a round whatever the codec looks at; nothing is prepared.
  virtual Result<std::vector<kernels::Stats>> StatsOf(uint64_t round, uint32_t bucket) = 0;
  // How many gradients of the bucket have the magnitude that their part has here, or more; none of
  // parts where that is below 0.
  virtual Result<uint64_t> CountFrom(uint64_t round, uint32_t bucket,
                                     std::span<const float> magnitudes) = 0;
  // Gradients [begin, begin + size).
  virtual Status BringGradients(uint64_t round, uint64_t begin, std::span<float> to) = 0;
  // The chunk's code, in memory that the device writes and a socket may send from. Scales by
  // segment, of ternary codes; the tensor of `noise` is each segment's. kDiverged where what is to
  // be coded is not finite and nobody had looked.
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // What the codec keeps of elements [begin, begin + size): arrays as those of its Memory's state,
  // in that order. Here, there, and nothing there.
  virtual Status BringKept(uint64_t begin, std::span<const std::span<float>> to) = 0;
  virtual Status SendKept(uint64_t begin, std::span<const std::span<float>> from) = 0;
  virtual Status ForgetKept() = 0;
};

}  // namespace tern::engine
