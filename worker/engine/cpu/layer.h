// The interface of a layer of the CPU engine. A layer appends its steps to the program (the net's
// list of steps, program.h) when the net is planned, and is then destroyed; only the steps remain.
// The table of layers.h names the function that makes each kind of layer. Internal to the engine.
#pragma once

#include <memory>
#include <vector>

#include "models/graph/shapes.h"
#include "proto/net.pb.h"
#include "worker/engine/cpu/program.h"
#include "worker/engine/layer_spec.h"

namespace tern::engine {

class Layer {
 public:
  virtual ~Layer() = default;
  // Appends the forward steps; returns the output, [N, C, H, W] in any memory layout.
  virtual Value Forward(Program* program, const std::vector<Value>& inputs) = 0;
  // Appends the backward steps. `gradient` is the gradient of the output. Returns one gradient per
  // input; gradients of inputs for which `wanted` is false are unspecified. REQUIRES that Forward
  // was called.
  virtual std::vector<Value> Backward(Program* program, const Value& gradient,
                                      const std::vector<bool>& wanted) = 0;
};

// Whether images and weights are rounded to bfloat16 before they are multiplied; sums are fp32.
inline bool MultipliesBf16(const LayerSpec& spec) { return spec.precision == Precision::kBf16; }
// The type in which images and weights are multiplied.
inline dnnl::memory::data_type FactorType(const LayerSpec& spec) {
  return MultipliesBf16(spec) ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// The dimensions [N, C, H, W] of a batch of images.
inline dnnl::memory::dims DimsOf(uint32_t batch, const models::ImageDims& image) {
  return {batch, image.c, image.h, image.w};
}

// The sliding window of a convolution or pooling layer, as oneDNN takes it: each vector has the
// number for rows and the number for columns.
struct WindowGeometry {
  dnnl::memory::dims kernel, strides, dilates, pad_begin, pad_end;
};
// Returns the window of `def`, a ConvDef or a PoolDef, on images of the shape `input`. REQUIRES
// that the shapes of the net have been inferred, which checks the window's sizes.
template <typename Def>
WindowGeometry WindowGeometryOf(const Def& def, const models::ImageDims& input) {
  const models::Window windows[] = {models::WindowOf(def, input.h), models::WindowOf(def, input.w)};
  const uint32_t sizes[] = {input.h, input.w};
  WindowGeometry geometry;
  for (int axis = 0; axis < 2; ++axis) {
    const auto plan = models::PlanAxis(sizes[axis], windows[axis]);
    geometry.kernel.push_back(windows[axis].kernel);
    geometry.strides.push_back(windows[axis].stride);
    geometry.dilates.push_back(windows[axis].dilation - 1);
    geometry.pad_begin.push_back(plan->pad_begin);
    geometry.pad_end.push_back(plan->pad_end);
  }
  return geometry;
}

// Appends a step that applies a ReLU to `value`, in place. oneDNN's own ReLU is not used, neither
// as a primitive nor at the end of another: it makes NaN 0, which hides that a net has diverged.
void AddRelu(Program* program, const Value& value);
// Appends the backward step of such a ReLU. Returns `gradient` where `output` is above 0, else 0,
// in the memory layout of `output`.
Value AddReluBackward(Program* program, const Value& output, const Value& gradient);

}  // namespace tern::engine
