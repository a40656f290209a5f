// Tests of the statistics of an array: sum, sum of squares, largest magnitude, whether all elements
// are finite. The sums must have the same bits on every machine, so stats.h defines the order of
// the additions: element i of a block of 4096 is added to partial sum i % 128 of the block, and the
// sum of block b to partial sum b % 128 of the array. SumByHalves shows how 128 partial sums are
// added.
#include "kernels/codes/stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class StatsOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(StatsOnTarget);

// Returns values whose rounded sum depends on the order of the additions: large values that cancel,
// and small values that lose low bits when they are added to large ones.
std::vector<float> OrderSensitiveValues(size_t n, uint64_t seed) {
  std::vector<float> x = Gaussian(n, seed);
  for (size_t i = 0; i < n; ++i) {
    if (i % 2 == 1) x[i] *= 0x1p-40f;
    if (i % 4 == 2) x[i] = -x[i - 2];
  }
  return x;
}

// Adds the second half of the partial sums to the first half until one sum is left.
double SumByHalves(std::vector<double> partial_sums) {
  while (partial_sums.size() > 1) {
    std::vector<double> folded(partial_sums.size() / 2);
    for (size_t l = 0; l < folded.size(); ++l)
      folded[l] = partial_sums[l] + partial_sums[l + folded.size()];
    partial_sums = folded;
  }
  return partial_sums[0];
}

// Returns the sum, or the sum of squares, in the order that stats.h defines. Missing elements of
// the last block are 0.
double DocumentedSum(const std::vector<float>& x, bool adds_squares) {
  std::vector<double> sums_of_blocks(128, 0.0);
  for (size_t block = 0; block < x.size(); block += 4096) {
    std::vector<double> partial_sums(128, 0.0);
    for (size_t i = block; i < block + 4096; ++i) {
      const double value = i < x.size() ? x[i] : 0.0;
      partial_sums[i % 128] += adds_squares ? value * value : value;
    }
    sums_of_blocks[block / 4096 % 128] += SumByHalves(partial_sums);
  }
  return SumByHalves(sums_of_blocks);
}

void ExpectSameBits(double a, double b) {
  EXPECT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)) << a << " and " << b;
}

TEST_P(StatsOnTarget, EqualTheReferenceAndTheDocumentedOrder) {
  std::vector<size_t> lengths = Lengths();
  lengths.push_back(4096 * 130 + 5);  // More blocks than the 128 partial sums.
  for (const size_t n : lengths) {
    SCOPED_TRACE(n);
    const std::vector<float> x = OrderSensitiveValues(n, n);
    const Stats reference = ComputeStatsRef(x.data(), n);
    ExpectSameBits(reference.sum, DocumentedSum(x, false));
    ExpectSameBits(reference.sum_squares, DocumentedSum(x, true));
    for (const size_t shift : {0, 1, 3}) {  // 1 and 3 make the address unaligned.
      std::vector<float> shifted(n + shift);
      std::copy(x.begin(), x.end(), shifted.begin() + static_cast<ptrdiff_t>(shift));
      const Stats stats = ComputeStats(shifted.data() + shift, n);
      ExpectSameBits(stats.sum, reference.sum);
      ExpectSameBits(stats.sum_squares, reference.sum_squares);
      EXPECT_EQ(stats.max_abs, reference.max_abs);
      EXPECT_TRUE(stats.is_finite);
    }
  }
}

TEST_P(StatsOnTarget, KeepsTheOrderOfAdditions) {
  std::vector<float> x = OrderSensitiveValues(10000, 1);
  const Stats stats = ComputeStats(x.data(), x.size());
  double sequential_sum = 0;
  for (const float value : x) sequential_sum += value;
  EXPECT_NE(sequential_sum, stats.sum);  // Otherwise these values would not show the order.

  int num_changed = 0;
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(x.begin(), x.end(), random);
    const Stats shuffled_stats = ComputeStats(x.data(), x.size());
    ExpectSameBits(shuffled_stats.sum, DocumentedSum(x, false));
    ExpectSameBits(shuffled_stats.sum_squares, DocumentedSum(x, true));
    if (shuffled_stats.sum != stats.sum) ++num_changed;
  }
  EXPECT_GE(num_changed, 19);
}

TEST_P(StatsOnTarget, FindTheLargestMagnitudeWhereverItIs) {
  for (const size_t n : {1, 64, 129, 5000}) {
    for (size_t i = 0; i < n; i += n < 200 ? 1 : 97) {
      std::vector<float> x(n, 0.5f);
      x[i] = -3.0f;
      EXPECT_EQ(ComputeStats(x.data(), n).max_abs, 3.0f) << n << " " << i;
    }
  }
}

TEST_P(StatsOnTarget, DetectsAnyNonFiniteValue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t n : {1, 7, 64, 129, 4096, 5000}) {
    for (size_t i = 0; i < n; i += n < 200 ? 1 : 97) {
      for (const float non_finite : {kInfinity, -kInfinity, kNan, -kNan}) {
        std::vector<float> x = Gaussian(n, n);
        x[i] = non_finite;
        EXPECT_FALSE(ComputeStats(x.data(), n).is_finite) << n << " " << i << " " << non_finite;
        EXPECT_FALSE(ComputeStatsRef(x.data(), n).is_finite) << n << " " << i << " " << non_finite;
      }
    }
  }
}

TEST_P(StatsOnTarget, LargestAndSmallestFloatsAreFinite) {
  const float values[] = {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
                          std::numeric_limits<float>::denorm_min(), -0.0f};
  const Stats stats = ComputeStats(values, 4);
  EXPECT_TRUE(stats.is_finite);
  EXPECT_EQ(stats.max_abs, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(stats.sum_squares));
}

TEST(Sigma, IsThePopulationDeviationAboutTheMean) {
  const float x[] = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(Sigma(ComputeStats(x, 8)), 2);
  const std::vector<float> gaussian_values = Gaussian(100000, 3, 0.25);
  EXPECT_NEAR(Sigma(ComputeStats(gaussian_values.data(), gaussian_values.size())), 0.25, 0.003);
}

TEST(Sigma, IsZeroForEqualValuesAndForNone) {
  EXPECT_EQ(Sigma(Stats()), 0);
  const std::vector<float> equal_values(1000, 0.1f);
  EXPECT_NEAR(Sigma(ComputeStats(equal_values.data(), equal_values.size())), 0, 1e-8);
  const std::vector<float> zeros(1000, 0.0f);
  EXPECT_EQ(Sigma(ComputeStats(zeros.data(), zeros.size())), 0);
}

}  // namespace
}  // namespace tern::kernels
