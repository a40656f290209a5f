// The training net on one device. Plans once (shapes, primitives, memory by lifetime), then only
// runs.
//
//   Make -> { Forward -> Backward }* , Evaluate at any time between
//
// Parameters and gradients live in the caller's arenas, in canonical order (models/shapes.h), plain
// row-major; the net keeps its own copies in the layouts that the backend prefers. One thread at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/base/status.h"
#include "models/shapes.h"
#include "proto/net.pb.h"

namespace tern::engine {

// Sums over a set of samples.
struct Score {
  double loss = 0;       // sum of the losses
  uint64_t correct = 0;  // top-1
  uint64_t samples = 0;
};

class Net {
 public:
  struct Options {
    uint32_t batch = 0;  // samples of one Forward
    bool training = true;
  };
  // `parameters` and `gradients` (unused unless training) hold table.total elements and outlive the
  // net.
  static Result<std::unique_ptr<Net>> Make(const pb::NetDef& def, const Options& options,
                                           const float* parameters, float* gradients);
  virtual ~Net() = default;

  // `images` is [batch, C, H, W]; labels are < classes. Reads the parameters afresh. Returns the
  // mean loss of the first `used` samples (the rest are padding of an evaluation; training uses
  // all), adding to *score.
  virtual double Forward(std::span<const float> images, std::span<const uint32_t> labels,
                         uint32_t used, Score* score) = 0;
  // d(mean loss)/d(parameters) into the gradients arena. `ready(p)` is called, on this thread, when
  // the gradient of parameter p (index in the table) is final, last layer first. REQUIRES a Forward
  // just before.
  virtual void Backward(const std::function<void(uint32_t p)>& ready) = 0;
};

}  // namespace tern::engine
