// The library that computes convolutions, and dense layers as convolutions of one pixel, on a GPU:
// cuDNN, or our own plain loops for shapes that cuDNN has no kernel for. A plan is made once, for
// one shape and one pass, and then only runs. Internal to the engine.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/device_images.h"

namespace tern::engine::cuda {

enum class ConvPass { kForward, kBackwardData, kBackwardWeights };

struct ConvShape {
  kernels::DeviceSlide slide;
  uint32_t groups = 1;
  kernels::DeviceType type = kernels::DeviceType::kFloat;
  bool tf32 = false;                // floats may be rounded to TF32 on input
  bool bias = false, relu = false;  // forward only
};

// Images in and out, [n, h, w, c]; the kernel [out.c, kernel, kernel, in.c / groups]; the bias
// [out.c]; all in the shape's type. A pass reads two of the first three (and the bias) and writes
// the third. All on the device, aligned to MemoryPlan::kAlignment, on which the libraries rely.
struct ConvData {
  void *x = nullptr, *kernel = nullptr, *y = nullptr, *bias = nullptr;
  void* workspace = nullptr;  // ConvPlan::workspace() bytes
};

class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  virtual size_t workspace() const = 0;
  // Launches the plan on the stream. Errors name the call.
  virtual Status Run(kernels::DeviceStream stream, const ConvData& data) = 0;
};

class ConvLibrary {
 public:
  virtual ~ConvLibrary() = default;
  virtual std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) = 0;
};

// The library of our own loops.
std::unique_ptr<ConvLibrary> MakeConvLoops();
// The fastest library in this build. One per net: it uses the net's stream.
Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream stream);

}  // namespace tern::engine::cuda
