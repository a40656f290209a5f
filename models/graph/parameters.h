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
  std::vector<uint32_t> shape;  // conv [O, I / groups, KH, KW], dense [O, I], bias [O]
  uint32_t number = 0;          // among all parameters of the net, frozen ones included, from 0
  uint64_t offset = 0;   // of its first element in its arena: of parameters, or of frozen ones
  uint64_t count = 0;    // how many elements it has
  bool is_bias = false;  // has one number per output: a bias, or the weight of a batch norm
  pb::Init init;
  uint64_t fan_in = 0;   // how many inputs contribute to one output; 1 for a bias, as in Caffe
  uint64_t fan_out = 0;  // to how many outputs one input contributes; for a bias, O
};

// State of a layer that is not trained, for example the running mean and variance of a batch norm.
struct Statistic {
  std::string name;        // LAYER.running_mean, LAYER.running_var
  uint64_t offset = 0;     // of its first element in the array of all statistics
  uint64_t count = 0;      // how many elements it has
  float initial = 0;       // the initial value of every element
  bool is_frozen = false;  // whether all parameters of its layer are frozen, so that it is constant
};

struct ParameterTable {
  std::vector<Parameter> parameters;  // those that are trained
  uint64_t total = 0;                 // elements of all of these
  std::vector<Parameter> frozen;  // those that are not (freeze.h); they have an arena of their own
  uint64_t frozen_total = 0;      // elements of all frozen ones
  std::vector<Statistic> statistics;
  uint64_t statistics_total = 0;  // elements of all statistics
};

// The shape of an image: channels, height, width.
struct ImageDims {
  uint32_t c = 0, h = 0, w = 0;  // the output of a dense layer is {outputs, 1, 1}
};

// Returns min(a * b, kMaxElements + 1). REQUIRES a * b < 2^64.
inline uint64_t BoundedProduct(uint64_t a, uint64_t b) { return std::min(a * b, kMaxElements + 1); }
// The number of elements of an image, but at most kMaxElements + 1.
inline uint64_t Elements(const ImageDims& dims) {
  return BoundedProduct(BoundedProduct(dims.c, dims.h), dims.w);
}

}  // namespace tern::models
