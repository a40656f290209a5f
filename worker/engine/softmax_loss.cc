#include "worker/engine/softmax_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tern::engine {

namespace {

// Returns how many scores are larger than the label's. If two classes have equal scores, the score
// of the first class counts as the larger.
uint32_t RankOfLabel(const float* row_scores, uint32_t classes, uint32_t label) {
  uint32_t rank = 0;
  for (uint32_t c = 0; c < classes; ++c)
    rank += row_scores[c] > row_scores[label] || (row_scores[c] == row_scores[label] && c < label);
  return rank;
}

}  // namespace

SoftmaxSums SoftmaxLoss(const float* scores, std::span<const uint32_t> labels, uint32_t rows,
                        uint32_t classes, uint32_t used, float smoothing, float* gradient) {
  SoftmaxSums sums;
  const double target_of_every_class = double{smoothing} / classes,
               extra_target_of_label = 1 - double{smoothing};
  std::vector<double> exps(classes);
  for (uint32_t n = 0; n < used; ++n) {
    const float* row_scores = scores + size_t{n} * classes;
    const double largest_score = *std::max_element(row_scores, row_scores + classes);
    double exp_sum = 0, difference_sum = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      exps[c] = std::exp(row_scores[c] - largest_score);
      exp_sum += exps[c];
      difference_sum += row_scores[c] - largest_score;
    }
    sums.AddRow(std::log(exp_sum) -
                    extra_target_of_label * (row_scores[labels[n]] - largest_score) -
                    target_of_every_class * difference_sum,
                RankOfLabel(row_scores, classes, labels[n]));
    if (gradient == nullptr) continue;
    float* row_gradient = gradient + size_t{n} * classes;
    for (uint32_t c = 0; c < classes; ++c) {
      const double target = target_of_every_class + (c == labels[n] ? extra_target_of_label : 0);
      row_gradient[c] = static_cast<float>((exps[c] / exp_sum - target) / used);
    }
  }
  if (gradient != nullptr) {
    std::fill(gradient + size_t{used} * classes, gradient + size_t{rows} * classes, 0.f);
  }
  return sums;
}

}  // namespace tern::engine
