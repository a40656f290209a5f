// Softmax and cross entropy combined, which keeps the loss and its gradient numerically stable.
#pragma once

#include <cstdint>
#include <span>

namespace tern::engine {

struct SoftmaxSums {
  // The sum over the used rows of -sum_c q[c] log softmax(x)[c], where q is (1 - smoothing) at the
  // label plus smoothing / classes everywhere.
  double loss = 0;
  // Rows whose label has the largest score (of equal scores, the first class).
  uint64_t correct = 0;
  uint64_t among_five = 0;  // rows whose label ranks among the first five
};

// `scores` is [rows, classes]; labels.size() >= used, each < classes; only the first `used` rows
// are valid. Unless null, gradient [rows, classes] = d(loss / used) / d(scores), zero in other
// rows. In double, row by row: the same for any number of threads.
SoftmaxSums SoftmaxLoss(const float* scores, std::span<const uint32_t> labels, uint32_t rows,
                        uint32_t classes, uint32_t used, float smoothing, float* gradient);

}  // namespace tern::engine
