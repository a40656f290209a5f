// A neural net on one device, for training or evaluation. Make plans everything once (shapes, the
// steps of the passes, memory); then the net only runs:
//
//   Make -> { Forward -> Backward? }*
//
// Parameters, gradients and batch-norm statistics are in arenas of the caller: arrays of all
// tensors, in the order of models/graph/shapes.h, each row-major. Some layers keep copies in other
// layouts. An evaluation net (is_training = false) is a second Net over the same parameters and
// statistics; it may run at any time between passes of the training net.
//
// Threads: only one thread at a time may use a net. A net on a CPU computes with as many OpenMP
// threads as omp_set_num_threads had set on the calling thread when Make ran. Call Forward and
// Backward on that thread, with the same setting. With the same number of threads, and the same
// kind of CPU, two runs give the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/nn/pixels.h"
#include "models/graph/shapes.h"
#include "proto/net.pb.h"
#include "worker/engine/planning.h"

namespace tern::device {
class DeviceModel;
}

namespace tern::engine {

// The result of an evaluation, summed over a set of samples.
struct Score {
  double loss = 0;  // The sum of the losses.
  // How many samples have their label's score as the largest. If two classes have equal scores, the
  // score of the first class counts as the larger. A sample whose loss is not finite is not right.
  uint64_t correct = 0;
  uint64_t among_five = 0;  // How many samples have their label's score among the five largest.
  uint64_t samples = 0;     // The number of samples.
};

enum class Device { kCpu, kCuda };

// The type of the factors that convolutions and dense layers multiply. Their sums are fp32, and so
// are parameters, their gradients (with 16 bits a GPU rounds those of weights once, at the end) and
// statistics. kTf32: on a GPU, fp32 rounded to TF32 for the tensor cores; on a CPU the same as
// kFp32. kBf16: bfloat16; a GPU also stores images (activations)
// in bfloat16. kFp16: half precision, also for stored images; on a GPU only. With kFp16, the loss
// is scaled so that gradients do not vanish, and a step whose gradients overflow is repeated with
// half the scale.
enum class Precision { kFp32, kTf32, kBf16, kFp16 };

// kBadJob if nets on this machine's CPU cannot have the precision.
Status CheckPrecisionOnCpu(Precision precision);

// A function that the forward pass calls before the first layer that reads parameter number p runs.
// Until the function returns, the parameter may still be written. If it returns false, the pass
// ends.
using Need = std::function<bool(uint32_t p)>;

class Net {
 public:
  struct Options {
    Device device = Device::kCpu;
    uint32_t batch = 0;  // The number of samples of each Forward.
    bool is_training = true;
    uint64_t seed = 0;  // Seed, rank and step number determine the random numbers of dropout.
    uint16_t rank = 0;
    Precision precision = Precision::kFp32;
    // If set, images are given as bytes, which the device converts by this rule to the same floats
    // as kernels::PixelTables does. On a GPU only.
    std::optional<kernels::PixelRule> pixels = std::nullopt;
    // Patterns of the names of parameters that are not trained (models/graph/freeze.h). A batch
    // norm whose parameters are all frozen computes as in evaluation.
    std::vector<std::string> freeze = {};
    // Whether convolutions may do a part of the work of batch norms (cuda/norm_fusion.h). On a GPU
    // only; a benchmark compares both.
    bool fuses_norms = true;
  };
  // The caller's arenas, which must outlive the net. `parameters` and, in training, `gradients`
  // contain all parameters of the net but the frozen ones, `frozen` these, which must not change;
  // `statistics` contains the running statistics of the net's batch norms, which evaluation reads
  // and each Forward in training updates.
  struct Arenas {
    const float* parameters = nullptr;
    float* gradients = nullptr;
    float* statistics = nullptr;
    // For a net on a GPU whose parameters and gradients stay there: the model that holds them, in
    // place of `parameters` and `gradients`.
    device::DeviceModel* model = nullptr;
    const float* frozen = nullptr;
  };
  static Result<std::unique_ptr<Net>> Make(const pb::NetDef& def, const Options& options,
                                           const Arenas& arenas);
  virtual ~Net() = default;

  // The input of a forward pass.
  struct Feed {
    std::span<const float> images;     // [batch, C, H, W]
    std::span<const uint32_t> labels;  // Each is less than the number of classes.
    // How many samples are valid, 1 to batch. The others only fill up the last batch of an
    // evaluation.
    uint32_t used = 0;
    uint64_t step = 0;  // The step's number, which selects the random numbers of dropout.
    // If not empty, receives the scores from which the loss is computed, [batch, classes].
    std::span<float> scores = {};
    // With Options::pixels, these replace `images`: the bytes [batch, C, H, W], and for each image
    // the random numbers of its conversion, [batch].
    std::span<const uint8_t> bytes = {};
    std::span<const kernels::PixelDraws> draws = {};
  };
  // Copies the images, reads the parameters, and returns the mean loss of the valid samples. Adds
  // the sums over the valid samples to *score unless `score` is null. Calls `need(p)`, if set, on
  // this thread for each parameter p of the table, in ascending order. If `need` ended the pass,
  // the result is unspecified. In training on a GPU with Arenas::model, the gradient may be written
  // from here on.
  virtual double Forward(const Feed& feed, Score* score, const Need& need = nullptr) = 0;
  // Writes the gradient of the mean loss to the arena of gradients. Calls `ready(p)`, on this
  // thread, when the gradient of parameter p is final, in descending order of p. With Arenas::model
  // it may be final later, but before anything runs that is then launched to encode it (the model's
  // functions do that). REQUIRES that
  // Forward was called just before and that the parameters have not changed since, because layers
  // read them again.
  virtual void Backward(const std::function<void(uint32_t p)>& ready) = 0;
  // Announces the feed of the next Forward, so that a GPU uploads the feed's bytes during the
  // current step. The feed's memory must not change until that Forward has returned, or until
  // Unstage. For a training net with Options::pixels; call between Forward and Backward. Does
  // nothing on a CPU.
  virtual void Stage(const Feed& /*next*/) {}
  // Cancels the last Stage: the announced feed will not be used, and its memory may change.
  virtual void Unstage() {}
  // Page-locks the memory until the returned handle is destroyed, so that copies to a GPU are
  // faster and run while the GPU computes. Returns null on a CPU. Any thread may call Pin.
  virtual std::shared_ptr<void> Pin(const void* /*begin*/, size_t /*bytes*/) const {
    return nullptr;
  }
  // What the net was planned with, and which launches graphs replay by now. Empty on a CPU.
  virtual Planning planning() const { return {}; }
  // The first error of the device, or Ok. After an error, the results of Forward are unspecified,
  // and Backward does nothing.
  virtual Status status() const { return Ok(); }
};

}  // namespace tern::engine
