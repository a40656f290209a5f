// Powers that have the same bits on every machine, unlike those of std::pow: all workers compute
// them, and their replicas must stay equal.
#pragma once

#include <cstdint>

namespace tern::update {

// Returns base ^ exponent by repeated squaring.
constexpr double Power(double base, uint64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) power *= base;
  }
  return power;
}

}  // namespace tern::update
