// The specification of a layer, for any backend. Internal to the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/codes/philox.h"
#include "models/graph/shapes.h"
#include "proto/net.pb.h"
#include "worker/engine/net.h"

namespace tern::engine {

// A parameter in the caller's arenas.
struct ParameterArrays {
  uint32_t index = 0;         // in the table
  float* values = nullptr;    // read only
  float* gradient = nullptr;  // in training
};

// One layer with all its shapes.
struct LayerSpec {
  const pb::LayerDef* def = nullptr;
  uint32_t batch = 0;
  bool training = false;
  Precision precision = Precision::kFp32;
  // The shapes of the inputs, without "label"; a batch norm's may include an input that it adds.
  std::vector<models::ImageDims> inputs;
  models::ImageDims output;
  bool relu = false;  // this layer also applies the ReLU that follows it
  std::vector<ParameterArrays> parameters;
  std::vector<float*> statistics;  // in the caller's arena
  kernels::NoiseKey noise;  // for dropout: `tensor` is the layer's index; `round` is set per step

  const models::ImageDims& input() const { return inputs[0]; }
};

}  // namespace tern::engine
