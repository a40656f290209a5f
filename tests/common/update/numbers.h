// Shared by the tests of common/update: arrays that are functions of a seed, and the distance of a
// float result from its double-precision reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace tern::update {

inline std::vector<float> Random(size_t n, uint64_t seed, double sigma = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, sigma);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(normal(random));
  return values;
}

inline std::vector<double> Wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// |x - reference| / |reference|, 2-norms.
inline double Distance(const std::vector<float>& x, const std::vector<double>& reference) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - reference[i]) * (x[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  return std::sqrt(difference / norm);
}

constexpr double kClose = 1e-5;          // of the norm: rounding
constexpr double kMutant = 10 * kClose;  // the distance to a mutant must exceed this

}  // namespace tern::update
