// The parameters and statistics of a network, and the size of an image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/limits.h"
#include "proto/net.pb.h"

namespace tern::models {

struct Parameter {
  std::string name;             // LAYER.weight, LAYER.bias
  std::vector<uint32_t> shape;  // conv [O, I, KH, KW], dense [O, I], bias [O]
  uint64_t offset = 0;          // in the arena, in elements
  uint64_t count = 0;
  bool is_bias = false;  // one number per output: a bias, or the scale of a norm
  pb::Init init;
  uint64_t fan_in = 0;   // inputs of one output, for Xavier; 1 for a bias, as in Caffe
  uint64_t fan_out = 0;  // outputs that one input contributes to
};

// State of a layer that is not trained, for example the running mean and variance of a batch norm.
struct Statistic {
  std::string name;     // LAYER.running_mean, LAYER.running_var
  uint64_t offset = 0;  // in the arena of statistics
  uint64_t count = 0;
  float initial = 0;
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  uint64_t total = 0;  // elements
  std::vector<Statistic> statistics;
  uint64_t statistics_total = 0;
};

struct ImageDims {
  uint32_t c = 0, h = 0, w = 0;  // a dense output is {outputs, 1, 1}
};

// min(a b, kMaxElements + 1). REQUIRES a, b <= 2^32.
inline uint64_t BoundedProduct(uint64_t a, uint64_t b) { return std::min(a * b, kMaxElements + 1); }
// Elements of an image, bounded in the same way.
inline uint64_t Elements(const ImageDims& dims) {
  return BoundedProduct(BoundedProduct(dims.c, dims.h), dims.w);
}

}  // namespace tern::models
