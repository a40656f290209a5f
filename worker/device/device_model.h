// A model whose values stay on a GPU during training: the weights W, the optimizer's state, the
// moving average of the weights, the gradients, and the state that the codec keeps from round to
// round. The GPU encodes the gradients, and updates the weights from sums of the workers' codes; in
// a round, codes and sums are copied between host and device instead of gradients and weights.
//
// Each array is an arena: it has all elements of the model in one order. A bucket is a group of
// tensors whose gradients become ready together; it is divided into chunks, each encoded and summed
// by itself. Buckets and chunks consist of parts, which are ranges of one tensor.
//
// Threads: the compute thread trains, and calls all functions of the model; the nets that use the
// model share one stream. The coder thread encodes, and calls only codes(); the net thread calls
// only PlaceSum. If the device fails, a call returns kPeerLost; the message names the CUDA call
// that reported the error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/bytes.h"
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
  // The additional arenas of algorithms whose workers compute gradients at local weights w' instead
  // of the global weights W. kPoint is w'; kBefore an earlier W; kVelocity and kMeanSquare are the
  // state of the rule that updates w'.
  enum class LocalArray { kPoint, kBefore, kVelocity, kMeanSquare };
  // Which arenas the model has, and how they are divided. The member `chunk` of kernels::Part is
  // ignored.
  struct Layout {
    uint64_t elements = 0;
    uint32_t state_arrays = 0;  // The number of arenas of the optimizer's state, at most 2.
    bool has_average = false;   // Whether there is a moving average of the weights.
    std::vector<LocalArray> local_arrays;  // Which additional arenas there are.
    // How many rounds may be in progress at a time (a round is one exchange of gradients). If more
    // than 1, RetainGradients keeps a copy of each round's gradients.
    uint32_t rounds = 1;
    std::vector<std::vector<kernels::Part>> buckets;  // The parts of each bucket.
    std::vector<std::vector<kernels::Part>> chunks;   // The parts of each chunk of all buckets.
    // For each tensor, the number of neighbouring elements that contribute to one output of the
    // tensor's layer.
    std::vector<uint64_t> columns;
    uint32_t workers = 1;  // The most workers whose codes are in one sum.
    // The codec, which must outlive the model. REQUIRES an implementation on a GPU
    // (codec::CanEncodeOnDevice).
    const codec::Codec* codec = nullptr;
    codec::Options options;  // The options that the codec was made with.
  };
  // Makes a model whose arenas contain zeros. kBadJob if there is no suitable GPU, or not enough
  // memory.
  static Result<std::unique_ptr<DeviceModel>> Make(const Layout& layout);
  virtual ~DeviceModel() = default;

  // The interface that encodes gradients, for the coder thread. The model owns the object.
  virtual DeviceCodes& codes() = 0;

  // The host's copies of the weights, of the optimizer's state (in the optimizer's order), and of
  // the moving average, if there is one. Each has all elements of the model.
  struct HostCopies {
    float* weights = nullptr;
    std::vector<float*> state_arrays;
    float* average = nullptr;
  };
  virtual Status CopyToDevice(const HostCopies& from) = 0;
  // Waits until all updates so far are done, and copies the arrays to the host.
  virtual Status CopyToHost(const HostCopies& to) = 0;

  // g += decay w for elements [begin, begin + count); g are the gradients, and w the weights at
  // which they were computed.
  virtual Status AddDecay(uint64_t begin, uint64_t count, float decay) = 0;
  // Returns the sum of the squares of all gradients, which must be ready. Waits for the result.
  virtual Result<double> SumOfSquaredGradients() = 0;
  // Multiplies all gradients by `factor`.
  virtual Status ScaleGradients(float factor) = 0;

  // Copies a bucket's gradients, so that they can be encoded for this round while the gradients of
  // the next step are computed. Call when the bucket's gradients are ready. REQUIRES
  // Layout::rounds > 1.
  virtual Status RetainGradients(uint64_t round, uint32_t bucket) = 0;

  // CopyWeights copies W to one of the additional arenas, on the device. CopyLocalToDevice and
  // CopyLocalToHost copy one of these arenas from and to the host.
  virtual Status CopyWeights(LocalArray to) = 0;
  virtual Status CopyLocalToDevice(LocalArray to, const float* from) = 0;
  virtual Status CopyLocalToHost(LocalArray from, float* to) = 0;
  // Updates the local weights of all tensors: w' = W + U(g), where U is the local update rule
  // `step` and g are the gradients. `rates`: one per tensor.
  virtual Status UpdateLocalWeights(const kernels::LocalStep& step,
                                    std::span<const kernels::TensorRates> rates) = 0;

  // The encoded sum of the codes that `contributors` workers sent for a chunk: the codec's bytes,
  // part after part, and the scaler (scale factor) of each part.
  struct Sums {
    std::span<const uint8_t> bytes;
    uint32_t contributors = 0;
    std::span<const float> scalers;
  };
  // Returns a copy of an encoded sum in page-locked memory, or `sum` itself if there is no such
  // memory. Update and DecodeMeans need less time for a copy. The only function that the net thread
  // may call. The copy may outlive the model.
  virtual Bytes PlaceSum(const Bytes& sum) = 0;
  // Decodes the mean gradient of a chunk, and updates the chunk's weights by an optimizer step.
  // `rates`: one per part of the chunk. kMismatch if `sums` has the wrong number of bytes. Other
  // invalid sums are reported by CheckSums.
  virtual Status Update(uint32_t chunk, const Sums& sums, const kernels::UpdateStep& step,
                        std::span<const kernels::TensorRates> rates) = 0;
  // The stages of Update, for optimizers that need whole tensors. ClearMeans sets the bucket's mean
  // gradients to 0. DecodeMeans decodes the mean gradients of a chunk. SquareSumsOf subtracts
  // `removed_decay` times the weights from the mean gradients, waits, and returns the sums of the
  // squares of the weights and of the mean gradients. UpdateBucket updates the weights by an
  // optimizer step with the mean gradients. `removed_decay`, the result and `rates` have one
  // element per part of the bucket.
  virtual Status ClearMeans(uint32_t bucket) = 0;
  virtual Status DecodeMeans(uint32_t chunk, const Sums& sums) = 0;
  struct SquareSums {
    double weights = 0, means = 0;
  };
  virtual Result<std::vector<SquareSums>> SquareSumsOf(uint32_t bucket,
                                                       std::span<const float> removed_decay) = 0;
  virtual Status UpdateBucket(uint32_t bucket, const kernels::UpdateStep& step,
                              std::span<const kernels::TensorRates> rates) = 0;
  // Updates the moving average of elements [begin, begin + count) with the weights:
  // average += one_minus_decay * (W - average). kReplaced: and then sets the weights to it.
  enum class Weights { kKept, kReplaced };
  virtual Status UpdateAverage(uint64_t begin, uint64_t count, float one_minus_decay,
                               Weights weights) = 0;
  // kMismatch if a sum was invalid. kNow: waits until all sums so far are decoded. kLater: of the
  // sums before the last call; does not wait, so it may notice that only in a later call.
  enum class SumCheck { kNow, kLater };
  virtual Status CheckSums(SumCheck check) = 0;
};

}  // namespace tern::device
