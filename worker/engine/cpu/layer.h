// A layer of the CPU engine: it appends its steps to the program once, and is then destroyed. One
// file per kind and one line in the table of layers.h. Internal to the engine.
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
  // Appends the forward steps; returns the output, [N, C, H, W] in any layout.
  virtual Value Forward(Program* program, const std::vector<Value>& inputs) = 0;
  // Appends the backward steps. `gradient` is that of the output. Returns the gradients of the
  // inputs that are `wanted`; the others are unspecified. REQUIRES Forward before.
  virtual std::vector<Value> Backward(Program* program, const Value& gradient,
                                      const std::vector<bool>& wanted) = 0;
};

// Whether images and weights are multiplied in bfloat16; sums are in fp32.
inline bool MultipliesBf16(const LayerSpec& spec) { return spec.precision == Precision::kBf16; }
inline dnnl::memory::data_type FactorType(const LayerSpec& spec) {
  return MultipliesBf16(spec) ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// The dimensions [N, C, H, W] of a batch of images.
inline dnnl::memory::dims DimsOf(uint32_t batch, const models::ImageDims& image) {
  return {batch, image.c, image.h, image.w};
}

// The windows on an image in oneDNN's terms: rows and columns.
struct WindowGeometry {
  dnnl::memory::dims kernel, strides, dilates, pad_begin, pad_end;
};
// `def` is a ConvDef or a PoolDef; its sizes were checked when the net's shapes were inferred.
template <typename Def>
WindowGeometry WindowGeometryOf(const Def& def, const models::ImageDims& input) {
  const models::Window windows[] = {models::WindowOf(def, input.h), models::WindowOf(def, input.w)};
  const uint32_t sizes[] = {input.h, input.w};
  WindowGeometry places;
  for (int axis = 0; axis < 2; ++axis) {
    const auto plan = models::PlanAxis(sizes[axis], windows[axis]);
    places.kernel.push_back(windows[axis].kernel);
    places.strides.push_back(windows[axis].stride);
    places.dilates.push_back(windows[axis].dilation - 1);
    places.pad_begin.push_back(plan->pad_begin);
    places.pad_end.push_back(plan->pad_end);
  }
  return places;
}

// Attributes that fuse the ReLU of spec.relu into another primitive. AddReluBackward computes the
// masked gradient, in the output's layout, from the output; this is exact, because the output is at
// most zero exactly where the input is.
dnnl::primitive_attr AttributesWithRelu(bool relu);
Value AddReluBackward(Program* program, const Value& output, const Value& gradient);

}  // namespace tern::engine
