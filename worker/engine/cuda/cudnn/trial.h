// Runs plans of one pass of a convolution on arrays of its own, to find out whether they run,
// whether their results are right, and how long they take. Internal to the engine.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/device/device.h"
#include "worker/engine/cuda/conv_library.h"

namespace tern::engine::cuda::cudnn {

class Trial {
 public:
  // Allocates the arrays of the pass.
  static Result<std::unique_ptr<Trial>> Make(kernels::DeviceStream stream, const ConvShape& shape,
                                             ConvPass pass);

  // Runs the plan once and waits. An error if the plan needs too much workspace, does not run, or
  // computes a wrong result. Results are checked only for unequal padding (HasUnequalPadding),
  // because an engine of cuDNN 9.14 computes wrong gradients of weights there. Call it before
  // MeasureTimeMs, because the first run is slow.
  Status Run(ConvPlan* plan);
  // Returns how long a run of the plan takes, in milliseconds.
  Result<float> MeasureTimeMs(ConvPlan* plan);

 private:
  Trial(kernels::DeviceStream stream, const ConvShape& shape, ConvPass pass)
      : stream_(stream), shape_(shape), pass_(pass) {}
  Status Allocate();
  // Fills all arrays with -1, 0 and 1, for which all sums are exact in any order, and sets
  // expected_result_.
  Status PrepareCheck();
  // Fills the array that the pass sets with NaN, so that a plan that leaves a part out is noticed.
  Status SpoilResult();
  Status CheckResult();
  // The number of the array in memory_ that the pass sets.
  size_t ResultArray() const;
  Result<std::vector<uint8_t>> ReadResult();
  ConvData data() const;
  Status Wait();
  // Returns the milliseconds that the launches of `launch` take on the device.
  Result<float> TimeMs(const std::function<Status()>& launch);

  const kernels::DeviceStream stream_;
  const ConvShape shape_;
  const ConvPass pass_;
  std::vector<size_t> array_bytes_;  // x, kernel, y and bias
  std::vector<device::DeviceMemory> memory_;
  device::DeviceMemory workspace_;
  std::vector<uint8_t> expected_result_;  // Empty if results are not checked.
};

}  // namespace tern::engine::cuda::cudnn
