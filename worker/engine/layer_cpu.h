// A layer of the CPU engine: it appends its steps to the program, once, and is then gone. One file
// a kind (KIND_cpu.cc) and one line in the table of layer_cpu.cc. Internal to the engine.
#pragma once

#include <memory>

#include "models/shapes.h"
#include "proto/net.pb.h"
#include "worker/engine/program_cpu.h"

namespace tern::engine {

// One layer with all its shapes worked out.
struct LayerSpec {
  const pb::LayerDef* def = nullptr;
  uint32_t batch = 0;
  bool training = false;
  models::ImageDims input;
  models::ImageDims output;
  bool relu = false;  // followed by a ReLU that this layer applies itself

  // Where the layer has parameters: their places in the table and in the caller's arenas (the
  // gradients only in training).
  uint32_t weight = 0;
  uint32_t bias = 0;
  float* weight_values = nullptr;  // read only
  float* bias_values = nullptr;    // read only
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};

class Layer {
 public:
  virtual ~Layer() = default;
  // Appends the forward steps; returns the output, [N, C, H, W] in any layout.
  virtual Value Forward(Program* program, const Value& input) = 0;
  // Appends the backward steps. `gradient` is that of the output. Returns that of the input where
  // `wanted`; otherwise anything. REQUIRES Forward before.
  virtual Value Backward(Program* program, const Value& gradient, bool wanted) = 0;
};

struct LayerKind {
  pb::LayerDef::KindCase kind;
  std::unique_ptr<Layer> (*make)(const LayerSpec& spec);
  bool fuses_relu;
};

// The kind's line in the table; nullptr if the engine has no such layer.
const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind);

std::unique_ptr<Layer> MakeConv(const LayerSpec& spec);
std::unique_ptr<Layer> MakeDense(const LayerSpec& spec);
std::unique_ptr<Layer> MakeMaxPool(const LayerSpec& spec);
std::unique_ptr<Layer> MakeRelu(const LayerSpec& spec);
std::unique_ptr<Layer> MakeSoftmaxLoss(const LayerSpec& spec);

// [N, C, H, W]
inline dnnl::memory::dims DimsOf(uint32_t batch, const models::ImageDims& image) {
  return {batch, image.c, image.h, image.w};
}

// The ReLU of spec.relu inside another primitive, and its backward from the output (exact, for the
// output is zero or less just where the input is): gradient masked in place, in the output's
// layout.
dnnl::primitive_attr AttributesWithRelu(bool relu);
Value AddReluBackward(Program* program, const Value& output, const Value& gradient);

}  // namespace tern::engine
