// What a backend (CPU or GPU) needs to know to make a layer. Internal to the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/codes/philox.h"
#include "models/graph/shapes.h"
#include "proto/net.pb.h"
#include "worker/engine/net.h"

namespace tern::engine {

// A parameter of a layer. It is in the arenas of the engine's caller, each of which is one array
// for all layers of the net.
struct ParameterArrays {
  uint32_t index = 0;         // The parameter's index in ParameterTable::parameters.
  float* values = nullptr;    // The layer only reads these.
  float* gradient = nullptr;  // Null if the net is for evaluation.
  bool is_frozen = false;     // It is not trained: it has no index, and nobody reads its gradient.
};

// A layer, with its settings, shapes and arrays.
struct LayerSpec {
  const pb::LayerDef* def = nullptr;
  uint32_t batch = 0;
  bool is_training = false;
  Precision precision = Precision::kFp32;
  // The shapes of the inputs, except the input "label" of a loss. A batch norm has a second input
  // if it also computes the addition that follows it.
  std::vector<models::ImageDims> inputs;
  models::ImageDims output;
  bool has_relu = false;  // Whether the layer also computes the ReLU that follows it.
  // Whether the convolution also adds up its output's channels for the batch norm that follows it.
  // Only the GPU's backend sets it (cuda/norm_fusion.h).
  bool has_sums = false;
  // Whether the batch norm leaves its output and the ReLU to the convolution that reads them, which
  // computes them from the norm's input. Only the GPU's backend sets it, too.
  bool leaves_output = false;
  // Whether that convolution also computes the gradient of the norm's output before the ReLU, and
  // the sums that the norm's gradients need.
  bool leaves_gradient = false;
  std::vector<ParameterArrays> parameters;
  // Whether the layer has parameters, and all are frozen. It then computes no gradients of them,
  // and a batch norm computes as in evaluation.
  bool is_frozen = false;
  std::vector<float*> statistics;  // The running statistics of a batch norm, in the caller's arena.
  // The key of dropout's random numbers. Its field `tensor` is the layer's number; each step sets
  // the field `round` to the number of the step.
  kernels::NoiseKey noise;

  const models::ImageDims& input() const { return inputs[0]; }
};

}  // namespace tern::engine
