// Positions beyond the border of an image, which stand for those that a mirror at the border shows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern::data {

// Returns the position in 0 .. n - 1 that `position`, less than n before or after these, reflects:
// -1 is 1, and n is n - 2. With n = 1 all reflect position 0.
inline int64_t Reflected(int64_t position, int64_t n) {
  const int64_t reflected = position < 0    ? -position
                            : position >= n ? 2 * (n - 1) - position
                                            : position;
  return std::clamp<int64_t>(reflected, 0, n - 1);
}

}  // namespace tern::data
