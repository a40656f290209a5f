// What a backend (CPU or GPU) needs to know to make a layer. Internal to the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/codes/philox.h"
#include "models/graph/shapes.h"
#include "proto/net.pb.h"
#include "worker/engine/net.h"

namespace tern::engine {

// A parameter of a layer, in the arenas that the caller of the engine owns.
struct ParameterArrays {
  uint32_t index = 0;         // The parameter's number in the net's parameter table.
  float* values = nullptr;    // The layer only reads these.
  float* gradient = nullptr;  // Null unless the net is for training.
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
  bool relu = false;  // Whether the layer also computes the ReLU that follows it.
  std::vector<ParameterArrays> parameters;
  std::vector<float*> statistics;  // The running statistics of a batch norm, in the caller's arena.
  // The key of dropout's random numbers, with the layer's number as `tensor`; each step sets
  // `round`.
  kernels::NoiseKey noise;

  const models::ImageDims& input() const { return inputs[0]; }
};

}  // namespace tern::engine
