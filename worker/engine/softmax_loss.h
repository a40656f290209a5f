// Softmax and cross entropy together, which is where the loss and its gradient are stable.
#pragma once

#include <cstdint>
#include <span>

namespace tern::engine {

struct SoftmaxSums {
  // Over the rows that count: sum of -sum_c q[c] log softmax(x)[c], q = (1 - smoothing) at the
  // label plus smoothing / classes everywhere.
  double loss = 0;
  uint64_t correct = 0;     // rows whose label has the largest score (of equal ones the first)
  uint64_t among_five = 0;  // rows whose label is among the five first
};

// `scores` is [rows, classes]; labels.size() >= used, each < classes; the first `used` rows count.
// Unless null, gradient [rows, classes] = d(loss / used) / d(scores), zero in rows that do not
// count. In double, row by row: the same whatever the threads.
SoftmaxSums SoftmaxLoss(const float* scores, std::span<const uint32_t> labels, uint32_t rows,
                        uint32_t classes, uint32_t used, float smoothing, float* gradient);

}  // namespace tern::engine
