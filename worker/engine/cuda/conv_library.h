// The interface to a library that computes convolutions on a GPU, and dense layers as convolutions
// of images of one pixel: cuDNN, cuBLASLt or, where these cannot be used, simple kernels of this
// project. A plan is made once, for one shape and one pass, and can then run many times. Internal
// to the engine.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/device_images.h"
#include "worker/engine/planning.h"

namespace tern::engine::cuda {

enum class ConvPass { kForward, kBackwardData, kBackwardWeights };

struct ConvShape {
  kernels::DeviceSlide slide;
  uint32_t groups = 1;
  kernels::DeviceType type = kernels::DeviceType::kFloat;
  bool allows_tf32 = false;  // Whether floats may be rounded to TF32 before they are multiplied.
  bool has_bias = false;     // Whether the forward pass adds a bias.
  // Whether the forward pass also adds up the channels of y, for a batch norm. REQUIRES one group,
  // and no bias.
  bool has_sums = false;
  // Whether the passes that read x take max(0, scale x + shift) in its place, which is what a batch
  // norm and a ReLU would make of it. REQUIRES one group.
  bool normalizes = false;
  // Whether the gradient of x, of a shape that normalizes, goes on through that ReLU: the pass
  // writes g in place of the gradient of what takes the place of x, and adds up g and g x^ for the
  // batch norm (batch_norm.h).
  bool takes_norm_gradient = false;
};
// Whether a pass adds up the channels of y.
inline bool AddsUp(const ConvShape& shape, ConvPass pass) {
  return shape.has_sums && pass == ConvPass::kForward;
}
// Whether a pass takes max(0, scale x + shift) in place of x.
inline bool Normalizes(const ConvShape& shape, ConvPass pass) {
  return shape.normalizes && pass != ConvPass::kBackwardData;
}
// Whether a pass goes on to the gradient g of a batch norm.
inline bool TakesNormGradient(const ConvShape& shape, ConvPass pass) {
  return shape.takes_norm_gradient && pass == ConvPass::kBackwardData;
}
// Whether a pass does some of the work of a batch norm, which the norm can also do itself.
inline bool HelpsNorm(const ConvShape& shape, ConvPass pass) {
  return AddsUp(shape, pass) || Normalizes(shape, pass) || TakesNormGradient(shape, pass);
}

// The arrays of a pass, on the device: the input images x and the output images y, [n, h, w, c];
// the kernel (weights) [y channels, rows, columns, x channels / groups]; the bias [y channels]. All
// have the type ConvShape::type, and so has `norm`: for each channel of x the scale, and then for
// each channel the shift. `sums` are floats: for each channel of y the sum of its elements, and
// then for each channel the sum of their squares. kForward reads x, the kernel and the bias, and
// writes y and `sums`. Whether a library adds up elements before or after it has rounded them to
// the type of y, and in which order, is its own affair; all runs of a plan give the same bits. What
// takes the place of x is rounded to x's type, and then padded with zeros.
// kBackwardData reads the kernel and the gradient of y, and writes the gradient of x; to go on to
// g, it also reads `norm_input`, the norm's input, which has the shape of x, and the first six of
// `norm_arrays` (NormArrays, for the channels of x), and sets the others but `slope` and `offset`.
// kBackwardWeights reads x and the gradient of y, and writes the gradient of the kernel; a gradient
// takes the place of its array. Addresses are aligned to MemoryPlan::kAlignment, because the
// libraries rely on that.
struct ConvData {
  void *x = nullptr, *kernel = nullptr, *y = nullptr, *bias = nullptr;
  float* sums = nullptr;
  void *norm = nullptr, *norm_input = nullptr;
  float* norm_arrays = nullptr;
  void* workspace = nullptr;  // Has ConvPlan::workspace_bytes() bytes.

  bool operator==(const ConvData&) const = default;
};

// A text that names a pass and its shape: "forward bf16 64x28x28x1 to 24x24x20 by ...".
std::string DescribePass(const ConvShape& shape, ConvPass pass);

class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  virtual size_t workspace_bytes() const = 0;  // The bytes of workspace that Run needs.
  // Launches the pass on the stream. The message of an error names the call that failed.
  virtual Status Run(kernels::DeviceStream stream, const ConvData& data) = 0;
};

class ConvLibrary {
 public:
  virtual ~ConvLibrary() = default;
  // Makes a plan for one shape and one pass. Null if the pass helps a batch norm (HelpsNorm), and
  // the library cannot do that.
  virtual std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) = 0;
};

// Makes the library that uses the simple kernels of this project, and adds the passes that it plans
// to planning->own_loops. `planning` must outlive the library.
std::unique_ptr<ConvLibrary> MakeConvLoops(Planning* planning);
// Makes a library that computes depthwise convolutions (kernels/nn/depthwise.h) itself, and leaves
// all other shapes to `other_library`.
std::unique_ptr<ConvLibrary> WithDepthwise(std::unique_ptr<ConvLibrary> other_library);
// Makes the fastest library in this build. `stream` is the net's stream. Records in `planning`,
// which must outlive the library, where plans come from. Each net has its own library, and destroys
// it when the net is planned, so that other processes can then plan. kBadJob if the libraries of
// the vendor are not on this machine.
Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream stream,
                                                     Planning* planning);
// The name and version of that library: "cuDNN 91000", "cuDNN that is not on this machine", or
// "without cuDNN".
std::string ConvLibraryName();

}  // namespace tern::engine::cuda
