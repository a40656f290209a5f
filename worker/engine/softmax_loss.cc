#include "worker/engine/softmax_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tern::engine {

namespace {

// Returns how many scores are larger than the label's. Of equal scores, the first class counts as
// the larger.
uint32_t RankOfLabel(const float* x, uint32_t classes, uint32_t label) {
  uint32_t rank = 0;
  for (uint32_t c = 0; c < classes; ++c) rank += x[c] > x[label] || (x[c] == x[label] && c < label);
  return rank;
}

}  // namespace

SoftmaxSums SoftmaxLoss(const float* scores, std::span<const uint32_t> labels, uint32_t rows,
                        uint32_t classes, uint32_t used, float smoothing, float* gradient) {
  SoftmaxSums sums;
  const double spread = double{smoothing} / classes, at_label = 1 - double{smoothing};
  std::vector<double> exps(classes);
  for (uint32_t n = 0; n < used; ++n) {
    const float* x = scores + size_t{n} * classes;
    const double largest = *std::max_element(x, x + classes);
    double sum = 0, linear = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      exps[c] = std::exp(x[c] - largest);
      sum += exps[c];
      linear += x[c] - largest;
    }
    sums.loss += std::log(sum) - at_label * (x[labels[n]] - largest) - spread * linear;
    const uint32_t label_rank = RankOfLabel(x, classes, labels[n]);
    sums.correct += label_rank == 0;
    sums.among_five += label_rank < 5;
    if (gradient == nullptr) continue;
    float* g = gradient + size_t{n} * classes;
    for (uint32_t c = 0; c < classes; ++c) {
      const double q = spread + (c == labels[n] ? at_label : 0);
      g[c] = static_cast<float>((exps[c] / sum - q) / used);
    }
  }
  if (gradient != nullptr) {
    std::fill(gradient + size_t{used} * classes, gradient + size_t{rows} * classes, 0.f);
  }
  return sums;
}

}  // namespace tern::engine
