// The simulator's random numbers (splitmix64): small, fast, and the same on every machine.
#pragma once

#include <cstdint>

#include "common/protocol/rounds/message.h"

namespace tern::sim {

// The output function of splitmix64: a bijective hash of 64 bits.
inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(Mix(seed)) {}

  // Uniform over all 64-bit numbers.
  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15u); }
  // Uniform in [0, n). REQUIRES n > 0.
  uint64_t Below(uint64_t n) { return Next() % n; }
  // True with probability p.
  bool Chance(double p) { return p > 0 && static_cast<double>(Next() >> 11) * 0x1p-53 < p; }
  // A random duration in [low, high) milliseconds.
  protocol::Time Ms(uint64_t low, uint64_t high) {
    return std::chrono::microseconds(low * 1000 + Below((high - low) * 1000));
  }

 private:
  uint64_t state_;
};

}  // namespace tern::sim
