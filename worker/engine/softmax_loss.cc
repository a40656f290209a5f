#include "worker/engine/softmax_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tern::engine {

SoftmaxSums SoftmaxLoss(const float* scores, std::span<const uint32_t> labels, uint32_t rows,
                        uint32_t classes, uint32_t used, float* gradient) {
  SoftmaxSums sums;
  std::vector<double> exps(classes);
  for (uint32_t n = 0; n < used; ++n) {
    const float* x = scores + size_t{n} * classes;
    const uint32_t best = static_cast<uint32_t>(std::max_element(x, x + classes) - x);
    const double largest = x[best];
    double sum = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      exps[c] = std::exp(x[c] - largest);
      sum += exps[c];
    }
    sums.loss += std::log(sum) - (x[labels[n]] - largest);
    sums.correct += best == labels[n];
    if (gradient == nullptr) continue;
    float* g = gradient + size_t{n} * classes;
    for (uint32_t c = 0; c < classes; ++c) {
      g[c] = static_cast<float>((exps[c] / sum - (c == labels[n])) / used);
    }
  }
  if (gradient != nullptr) {
    std::fill(gradient + size_t{used} * classes, gradient + size_t{rows} * classes, 0.f);
  }
  return sums;
}

}  // namespace tern::engine
