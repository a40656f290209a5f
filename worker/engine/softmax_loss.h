// Softmax and cross entropy together, which is where the loss and its gradient are stable.
#pragma once

#include <cstdint>
#include <span>

namespace tern::engine {

struct SoftmaxSums {
  double loss = 0;       // sum over the rows that count of -log softmax(x)[label]
  uint64_t correct = 0;  // rows whose label has the largest score (of equal ones the first)
};

// `scores` is [rows, classes]; labels.size() >= used, each < classes; the first `used` rows count.
// Unless null, gradient [rows, classes] = d(loss / used) / d(scores), zero in rows that do not
// count. In double, row by row: the same whatever the threads.
SoftmaxSums SoftmaxLoss(const float* scores, std::span<const uint32_t> labels, uint32_t rows,
                        uint32_t classes, uint32_t used, float* gradient);

}  // namespace tern::engine
