// A layer of the engine on a GPU: as in worker/engine/cpu/layer.h, it appends its launches to the
// program once. One file per kind and one line in the table of layers.h. The parameters, gradients
// and statistics of its spec are on the device. Internal to the engine.
#pragma once

#include <memory>
#include <vector>

#include "kernels/nn/device_images.h"
#include "kernels/nn/rows.h"
#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/cuda/program.h"
#include "worker/engine/layer_spec.h"

namespace tern::engine::cuda {

class Layer {
 public:
  virtual ~Layer() = default;
  // Appends the forward launches; returns the output.
  virtual Value Forward(Program* program, const std::vector<Value>& inputs) = 0;
  // Appends the backward launches. `gradient` is that of the output. Returns the gradients of the
  // inputs that are `wanted`; the others are unspecified. REQUIRES Forward before.
  virtual std::vector<Value> Backward(Program* program, const Value& gradient,
                                      const std::vector<bool>& wanted) = 0;
};

// What layers use besides their input images.
struct Inputs {
  const kernels::DeviceStep* step = nullptr;  // on the device, like the next two
  const uint32_t* labels = nullptr;
  kernels::DeviceLoss* losses = nullptr;  // one per row
  ConvLibrary* convolutions = nullptr;    // used only during planning
};

inline kernels::DeviceImages ImagesOf(uint32_t batch, const models::ImageDims& image) {
  return {batch, image.h, image.w, image.c};
}

// `def` is a ConvDef or a PoolDef; its sizes were checked when shapes were inferred.
template <typename Def>
kernels::DeviceSlide SlideOf(const LayerSpec& spec, const Def& def) {
  const auto axis = [&def](uint32_t size) -> kernels::DeviceAxis {
    const models::Window window = models::WindowOf(def, size);
    return {window.kernel, window.stride, window.dilation,
            models::PlanAxis(size, window)->pad_begin};
  };
  return {ImagesOf(spec.batch, spec.input()),
          ImagesOf(spec.batch, spec.output),
          {axis(spec.input().h), axis(spec.input().w)}};
}

// The gradient where the ReLU's output is above 0, else 0.
Value AddReluBackward(Program* program, const Value& output, const Value& gradient);
Value AddSum(Program* program, const Value& a, const Value& b, bool relu);
// Converts images to rows of c * h * w, channels first; and back to `image`. One pixel already is
// such a row.
Value Flatten(Program* program, const Value& value);
Value Unflatten(Program* program, const Value& value, const models::ImageDims& image);

}  // namespace tern::engine::cuda
