#include "common/update/average.h"

#include <algorithm>

#include "kernels/update/optimizer.h"

namespace tern::update {

double EmaDecay(double decay, uint64_t t) {
  const auto num_updates = static_cast<double>(t);
  return std::min(decay, (1 + num_updates) / (10 + num_updates));
}

void AverageWeights(float* average, const float* w, size_t n, double decay, uint64_t update) {
  kernels::EmaUpdate(average, w, n, static_cast<float>(1 - EmaDecay(decay, update - 1)));
}

}  // namespace tern::update
