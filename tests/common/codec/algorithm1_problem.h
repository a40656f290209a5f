// A small training problem with gradients in closed form, for traces of TernGrad's Algorithm 1:
// every worker minimizes the same quadratic function, with its own noise in the gradients. The
// function, the initial weights and the noise are derived from the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/codec/codec.h"

namespace tern::codec {

template <typename T>
using Tensors = std::vector<std::vector<T>>;  // [tensor][element]

struct Problem {
  int workers = 4;
  uint64_t steps = 25;
  // The number of elements of each tensor: one whose gradients have heavy tails (so that clipping
  // has an effect), a smaller one, a bias, a single number, and one whose gradient is zero.
  std::vector<size_t> sizes = {1203, 310, 10, 1, 5};
  Options options;              // clipping, and whether the workers share scalers
  double learning_rate = 0.02;  // multiplied by (1 - step / steps)^0.5
  double momentum = 0.9;
  // For the first two tensors: weight_decay * weight is added to the gradient before encoding.
  double weight_decay = 0.02;
  uint64_t seed = 1;

  double DecayOf(size_t tensor) const { return tensor < 2 ? weight_decay : 0; }
  double InitialWeight(size_t tensor, size_t element) const;
  // The gradient of one element at weight w on one worker (line 2 of Algorithm 1), without weight
  // decay.
  double Gradient(uint64_t step, int worker, size_t tensor, size_t element, double w) const;
};

}  // namespace tern::codec
