// The search for elements that are not zero (sparse.h) in scalar code.
#include <algorithm>

#include "kernels/codes/sparse.h"

namespace tern::kernels {

void PackNonZerosRef(const float* x, size_t n, uint8_t* bits) {
  std::fill_n(bits, (n + 7) / 8, uint8_t{0});
  for (size_t i = 0; i < n; ++i)
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | unsigned{x[i] != 0} << (i % 8));
}

}  // namespace tern::kernels
