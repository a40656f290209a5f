// Helpers of the tests of CPU kernels: a fixture that runs each test on every instruction set
// (target) that the CPU supports, array lengths to test, and random arrays.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu.h"

namespace tern::kernels {

class OnTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseCpuTargetForTest(GetParam())); }
  void TearDown() override { UseCpuTargetForTest(""); }
};

#define TERN_ON_EVERY_TARGET(suite)                                         \
  INSTANTIATE_TEST_SUITE_P(Targets, suite, testing::ValuesIn(CpuTargets()), \
                           [](const auto& test) { return test.param; })

// Returns array lengths to test: 0 to 70, and lengths near powers of 2 up to 16384 and near three
// blocks of 4096, where kernels change from whole vectors or blocks to a remainder.
inline std::vector<size_t> Lengths() {
  std::vector<size_t> lengths;
  for (size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  for (size_t n = 128; n <= 16384; n *= 2) {
    for (const size_t m : {n - 1, n, n + 1}) lengths.push_back(m);
  }
  for (const size_t n : {3 * 4096 - 1, 3 * 4096 + 1, 3 * 4096 + 777}) lengths.push_back(n);
  return lengths;
}

// Returns n normally distributed values with mean 0. Equal arguments give equal values.
inline std::vector<float> Gaussian(size_t n, uint64_t seed, double sigma = 1) {
  std::mt19937_64 bits(seed);
  const auto uniform = [&] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };
  std::vector<float> x(n);
  for (size_t i = 0; i < n; i += 2) {
    const double radius = sigma * std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    x[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < n) x[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return x;
}

}  // namespace tern::kernels
