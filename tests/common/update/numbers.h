// Helpers of the tests of common/update: random arrays that depend only on a seed, and the distance
// of a float result from its double-precision reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace tern::update {

// n numbers of a normal distribution with mean 0 and standard deviation sigma.
inline std::vector<float> RandomValues(size_t n, uint64_t seed, double sigma = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, sigma);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(normal(random));
  return values;
}

inline std::vector<double> ToDouble(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// |x - reference| / |reference|, where |.| is the 2-norm.
inline double RelativeDistance(const std::vector<float>& x, const std::vector<double>& reference) {
  double squared_difference = 0, squared_norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    squared_difference += (x[i] - reference[i]) * (x[i] - reference[i]);
    squared_norm += reference[i] * reference[i];
  }
  return std::sqrt(squared_difference / squared_norm);
}

// Limits of RelativeDistance: rounding errors stay below the first; a reference with a planted
// fault must be farther away than the second.
constexpr double kMaxRoundingDistance = 1e-5;
constexpr double kMinFaultDistance = 10 * kMaxRoundingDistance;

}  // namespace tern::update
