// The net on one device, for training or evaluation. Plans once (shapes, primitives, memory by
// lifetime), then only runs.
//
//   Make -> { Forward -> Backward? }*
//
// Parameters, gradients and statistics live in the caller's arenas, in canonical order
// (models/graph/shapes.h), plain row-major; some layers keep copies in the layouts that the backend
// prefers. An evaluation net (training = false) is a second Net over the same parameters and
// statistics; it may run at any time in between.
//
// Threads: one at a time. The backend uses the number of threads that omp_set_num_threads had set
// on the calling thread when Make ran: set it before, and call Forward and Backward on that thread
// with the same setting. With the same number of threads (and kind of CPU) two runs give the same
// bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/base/status.h"
#include "kernels/nn/pixels.h"
#include "models/graph/shapes.h"
#include "proto/net.pb.h"

namespace tern::device {
class DeviceModel;
}

namespace tern::engine {

// Sums over a set of samples.
struct Score {
  double loss = 0;  // sum of the losses
  // Samples whose label has the largest score (of equal scores, the first class).
  uint64_t correct = 0;
  uint64_t among_five = 0;  // samples whose label has one of the five largest scores
  uint64_t samples = 0;
};

enum class Device { kCpu, kCuda };

// The type of the factors in convolutions and dense layers; sums are in fp32, and so are
// parameters, their gradients and statistics. kTf32: fp32 rounded for a GPU's tensor cores; on a
// CPU plain fp32. kBf16: a GPU also stores images in bfloat16. kFp16: images and products in half,
// on a GPU only; gradients are scaled so that they do not vanish: a step whose gradients overflow
// is repeated with half the scale.
enum class Precision { kFp32, kTf32, kBf16, kFp16 };

// Called before the first layer that reads parameter p (index in the table): until it returns, the
// parameter may still be written. Returning false ends the pass there.
using Need = std::function<bool(uint32_t p)>;

class Net {
 public:
  struct Options {
    Device device = Device::kCpu;
    uint32_t batch = 0;  // samples of one Forward
    bool training = true;
    uint64_t seed = 0;  // for dropout, with the worker's rank and the step
    uint16_t rank = 0;
    Precision precision = Precision::kFp32;
    // If set, images are given as bytes, and the device converts them by this rule, to the same
    // bits as kernels::PixelTables. On a GPU only.
    std::optional<kernels::PixelRule> pixels = std::nullopt;
  };
  // The caller's arenas, which outlive the net: table.total elements, the gradients only in
  // training; table.statistics_total, read in evaluation and updated by each Forward in training.
  struct Arenas {
    const float* parameters = nullptr;
    float* gradients = nullptr;
    float* statistics = nullptr;
    // For a net on a GPU: the model that holds its weights and gradients, in place of the first
    // two.
    device::DeviceModel* model = nullptr;
  };
  static Result<std::unique_ptr<Net>> Make(const pb::NetDef& def, const Options& options,
                                           const Arenas& arenas);
  virtual ~Net() = default;

  struct Feed {
    std::span<const float> images;     // [batch, C, H, W]
    std::span<const uint32_t> labels;  // each < classes
    uint32_t used = 0;  // valid samples, 1 to batch; the rest are padding in an evaluation
    uint64_t step = 0;  // selects the draws of dropout
    // If not empty, receives the scores from which the loss is computed: [batch, classes].
    std::span<float> scores = {};
    // With Options::pixels, in place of `images`: [batch, C, H, W], and [batch].
    std::span<const uint8_t> bytes = {};
    std::span<const kernels::PixelDraws> draws = {};
  };
  // Copies the images, reads the parameters again, and returns the mean loss of the valid samples
  // (in training, all). Adds the sums to *score unless it is nullptr. Calls `need(p)`, if set, on
  // this thread: p from 0 to the last, a layer's weight before its bias. If `need` ended the pass,
  // the result is unspecified.
  virtual double Forward(const Feed& feed, Score* score, const Need& need = nullptr) = 0;
  // Computes d(mean loss)/d(parameters) into the gradients arena. Calls `ready(p)`, on this thread,
  // when the gradient of parameter p (index in the table) is final: p falls from the last to 0,
  // each layer's bias before its weight. REQUIRES a Forward just before and the parameters
  // unchanged since: layers read them again.
  virtual void Backward(const std::function<void(uint32_t p)>& ready) = 0;
  // Announces the feed of the next Forward, as bytes: a device uploads it while it works on the
  // current one. It must not change until that Forward has returned, or until Unstage. For a
  // training net, between Forward and Backward. Does nothing on other backends.
  virtual void Stage(const Feed& /*next*/) {}
  virtual void Unstage() {}  // the next Forward gets another feed, or does not come
  // Page-locks the range until the returned handle is dropped, so that a device copies it faster
  // and in parallel to other work. Any thread.
  virtual std::shared_ptr<void> Pin(const void* /*begin*/, size_t /*bytes*/) const {
    return nullptr;
  }
  // The first error of the device, if any: all results since then are unspecified, and Backward has
  // not called `ready` since.
  virtual Status status() const { return Ok(); }
};

}  // namespace tern::engine
