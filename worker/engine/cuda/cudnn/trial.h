// Runs plans of one pass of a convolution on arrays of its own, to find out whether they run,
// whether their results are right, and which is the fastest. Internal to the engine.
#pragma once

#include <functional>
#include <memory>
#include <span>
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
  // because an engine of cuDNN 9.14 computes wrong gradients of weights there, and for padding of
  // images that the pass normalizes (Normalizes), because an engine that pads first would turn the
  // zeros into max(0, shift).
  Status Run(ConvPlan* plan);
  // Returns the index of the fastest of the plans with which Run succeeds; kBadJob if there is
  // none. The plans take turns, so that a change of the clock rate or another program disturbs all
  // of them alike.
  Result<size_t> FastestOf(std::span<ConvPlan* const> plans);
  // Whether a plan was left out because the device has too little free memory for its workspace.
  bool lacked_memory() const { return lacked_memory_; }

 private:
  Trial(kernels::DeviceStream stream, const ConvShape& shape, ConvPass pass)
      : stream_(stream), shape_(shape), pass_(pass) {}
  Status Allocate();
  // Fills all arrays with -1, 0 and 1, and sets expected_result_. What takes the place of x is then
  // at most 2, and a product, too, so sums are exact in any order: 2^23 products cannot leave the
  // whole numbers that a float has, and the sums of more do not either, because their signs vary.
  Status PrepareCheck();
  // Fills the array that the pass sets with NaN, so that a plan that leaves a part out is noticed.
  Status SpoilResult();
  Status CheckResult();
  // The number of the array in memory_ that the pass sets.
  size_t ResultArray() const;
  Result<std::vector<uint8_t>> ReadResult();
  ConvData data() const;
  Status Wait();
  // Makes the workspace at least this large. The plans share it.
  Status EnsureWorkspace(size_t bytes);
  // Makes it as large as any of the plans needs for which there is memory. All at once, because
  // graphs keep the address that they were captured with.
  void EnsureWorkspaceFor(std::span<ConvPlan* const> plans);
  // A plan that is being timed: a captured graph of `runs` runs of it; no graph if it cannot be
  // captured.
  struct Timed {
    size_t index = 0;
    std::unique_ptr<device::Graph> graph = nullptr;
    int runs = 1;
    float least_ms = 0;  // of one run
  };
  // Runs the plan, times one run, and captures its graph.
  Result<Timed> Prepare(size_t index, ConvPlan* plan);
  // Returns the milliseconds that the launches of `launch` take on the device.
  Result<float> TimeMs(const std::function<Status()>& launch);

  const kernels::DeviceStream stream_;
  const ConvShape shape_;
  const ConvPass pass_;
  // Of x, kernel, y, bias, norm, the norm's input, sums and the norm's arrays.
  std::vector<size_t> array_bytes_;
  std::vector<device::DeviceMemory> memory_;
  device::DeviceMemory workspace_;
  size_t workspace_bytes_ = 0;
  bool lacked_memory_ = false;
  std::vector<uint8_t> expected_result_;  // Empty if results are not checked.
};

}  // namespace tern::engine::cuda::cudnn
