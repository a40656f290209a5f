// A model whose values stay on a GPU during training: weights, the optimizer's state, their moving
// average, gradients, and the codec's memories. The GPU encodes gradients, and applies sums of
// codes to the weights; only codes, sums and scalers travel.
//
// Threads: the compute thread runs the steps of the nets that train on it, all on one stream, and
// calls the model; the coder thread encodes, and calls the model's codes(). After an error of the
// device every call reports it; kPeerLost names the call that failed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"
#include "kernels/device/tiling.h"
#include "kernels/update/local_step.h"
#include "kernels/update/local_step_math.h"
#include "kernels/update/optimizer_math.h"
#include "kernels/update/update.h"
#include "worker/device/device_codes.h"

namespace tern::device {

class DeviceModel {
 public:
  // Extra per-parameter arrays of algorithms that train at local weights: the local weights w', at
  // which training nets take their gradients; the previous global weights W; and the state of the
  // local updater.
  enum class Local { kPoint, kBefore, kVelocity, kMeanSquare };
  // What the arrays hold, and how it is cut into parts. A part's `chunk` (kernels::Part) is
  // ignored.
  struct Layout {
    uint64_t elements = 0;
    uint32_t state_arrays = 0;  // arenas of the optimizer's state, at most 2
    bool average = false;       // whether there is a moving average
    std::vector<Local> local;   // the extra arrays
    // Gradients that are retained at a time; if more than 1, see RetainGradients.
    uint32_t rounds = 1;
    std::vector<std::vector<kernels::Part>> buckets;  // the units of StatsOf, in order
    std::vector<std::vector<kernels::Part>> chunks;   // the units of Encode and Update
    std::vector<uint64_t> columns;                    // by tensor, as in codec::Segment
    uint32_t workers = 1;                             // the largest number of contributors of a sum
    const codec::Codec* codec = nullptr;  // REQUIRES codec::HasDeviceForm; outlives the model
    codec::Options options;               // the options that the codec was made with
  };
  // Makes a model with zeroed arenas. kBadJob if there is no GPU, or not enough memory.
  static Result<std::unique_ptr<DeviceModel>> Make(const Layout& layout);
  virtual ~DeviceModel() = default;

  // The coder thread's interface to the model, which owns it.
  virtual DeviceCodes& codes() = 0;

  // The caller's copies in host memory: weights, the optimizer's state arrays in its order, and the
  // average if there is one.
  struct Host {
    float* weights = nullptr;
    std::vector<float*> state_arrays;
    float* average = nullptr;
  };
  virtual Status CopyToDevice(const Host& from) = 0;
  // Waits for launched work.
  virtual Status CopyToHost(const Host& to) = 0;

  // g += decay w for elements [begin, begin + count), where w are the weights at which the
  // gradients g were taken.
  virtual Status AddDecay(uint64_t begin, uint64_t count, float decay) = 0;
  // SquaresOfGradients returns the sum of squares of all gradients, added as in
  // kernels/codes/stats.h; waits. ScaleGradients multiplies all gradients by `factor`.
  virtual Result<double> SquaresOfGradients() = 0;
  virtual Status ScaleGradients(float factor) = 0;

  // Copies a bucket's gradients, once they are ready, so that the round's codes can be made from
  // them while the next gradients are computed.
  virtual Status RetainGradients(uint64_t round, uint32_t bucket) = 0;

  // CopyWeights copies W to one of the local arrays. The others copy a local array host -> device,
  // and device -> host.
  virtual Status CopyWeights(Local to) = 0;
  virtual Status CopyLocalToDevice(Local to, const float* from) = 0;
  virtual Status CopyLocalToHost(Local from, float* to) = 0;
  // w' = W + U_local(g) for all tensors; `decay`: their weight decay, by tensor.
  virtual Status MoveLocally(const kernels::LocalStep& step, std::span<const float> decay) = 0;

  // The sums of a chunk's codes over `contributors` workers: the bytes of the codec's sums, segment
  // after segment, and the segments' scalers.
  struct Sums {
    std::span<const uint8_t> bytes;
    uint32_t contributors = 0;
    std::span<const float> scalers;
  };
  // Applies one step to the chunk's elements; rates by segment. kMismatch for a wrong number of
  // bytes. CheckSums finds invalid sums.
  virtual Status Update(uint32_t chunk, const Sums& sums, const kernels::UpdateStep& step,
                        std::span<const kernels::TensorRates> rates) = 0;
  // The steps of Update for rules that need whole tensors: ClearMeans sets all gradients of a
  // bucket's parts to 0; ReadMeans decodes a chunk's means into them; SquaresOf returns the sums of
  // squares of means and weights, by part, and waits; UpdateBucket applies a step, with rates by
  // part.
  virtual Status ClearMeans(uint32_t bucket) = 0;
  virtual Status ReadMeans(uint32_t chunk, const Sums& sums) = 0;
  struct Squares {
    double weights = 0, means = 0;
  };
  virtual Result<std::vector<Squares>> SquaresOf(uint32_t bucket) = 0;
  virtual Status UpdateBucket(uint32_t bucket, const kernels::UpdateStep& step,
                              std::span<const kernels::TensorRates> rates) = 0;
  // Updates the moving average of elements [begin, begin + count) (kernels::EmaUpdate).
  virtual Status Average(uint64_t begin, uint64_t count, float one_minus_decay) = 0;
  // Checks all sums so far; waits for them. kMismatch if any was invalid.
  virtual Status CheckSums() = 0;
};

}  // namespace tern::device
