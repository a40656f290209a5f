// Softmax and cross entropy in one function, which is numerically more stable than two functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace tern::engine {

struct SoftmaxSums {
  // The sum over the used rows of -sum_c q[c] log softmax(x)[c], where x are the row's scores, and
  // the target q[c] is smoothing / classes, plus (1 - smoothing) if c is the label.
  double loss = 0;
  // The numbers of rows whose label has the largest score, or one of the five largest. If two
  // classes have equal scores, the score of the first class counts as the larger. A row whose loss
  // is not finite, such as one with a score that is NaN, is in neither number.
  uint64_t correct = 0;
  uint64_t among_five = 0;

  // Adds a row with the loss `row_loss`, of which `label_rank` scores are larger than the label's.
  void AddRow(double row_loss, uint32_t label_rank) {
    loss += row_loss;
    // Nothing is larger than NaN, so `label_rank` says nothing then.
    if (!std::isfinite(row_loss)) return;
    correct += label_rank == 0;
    among_five += label_rank < 5;
  }
};

// Computes the loss of the first `used` rows of `scores` [rows, classes]; `labels` has one label
// below `classes` for each of them. Unless `gradient` is null, writes d(loss / used) / d(scores) to
// it, [rows, classes], with zeros in the rows that are not used. Computes in double on the calling
// thread.
SoftmaxSums SoftmaxLoss(const float* scores, std::span<const uint32_t> labels, uint32_t rows,
                        uint32_t classes, uint32_t used, float smoothing, float* gradient);

}  // namespace tern::engine
