// The search for elements to send (sparse.h) in scalar code.
#include <algorithm>
#include <cmath>

#include "kernels/codes/sparse.h"

namespace tern::kernels {

void PackAtLeastRef(const float* x, size_t n, float threshold, uint8_t* bits) {
  std::fill_n(bits, (n + 7) / 8, uint8_t{0});
  for (size_t i = 0; i < n; ++i) {
    const bool is_sent = x[i] != 0 && std::abs(x[i]) >= threshold;
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | unsigned{is_sent} << (i % 8));
  }
}

size_t CountAtLeastRef(const float* x, size_t n, float threshold) {
  return static_cast<size_t>(
      std::count_if(x, x + n, [&](float v) { return std::abs(v) >= threshold; }));
}

size_t CollectAtLeastRef(const float* x, size_t n, float threshold, float* out) {
  const auto is_large = [&](float v) { return std::abs(v) >= threshold; };
  return static_cast<size_t>(std::copy_if(x, x + n, out, is_large) - out);
}

size_t ListOnesRef(const uint8_t* row, size_t begin, size_t end, uint16_t* positions) {
  size_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    if ((row[i / 8] >> (i % 8) & 1) != 0) positions[count++] = static_cast<uint16_t>(i - begin);
  }
  return count;
}

}  // namespace tern::kernels
