#include "worker/tensorboard/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tern::tensorboard {
namespace {

using ::testing::ElementsAre;

// Counts the values from the previous limit (or the smallest value) up to limit `i`, one by one.
double CountIn(const pb::HistogramProto& h, int i, const std::vector<float>& values) {
  double count = 0;
  for (const float v : values) {
    const double below = i == 0 ? -HUGE_VAL : h.bucket_limit(i - 1), limit = h.bucket_limit(i);
    count += v < 0 ? (v > below && v <= limit) : (v >= below && v < limit);
  }
  return count;
}

TEST(Histogram, ShowsTernaryCodesAsThreeNarrowSpikes) {
  const float s = 0.37f;
  std::vector<float> values(70, 0.f);
  values.insert(values.end(), 10, -s);
  values.insert(values.end(), 20, s);
  const pb::HistogramProto h = HistogramOf(values);
  EXPECT_EQ(h.min(), -s);
  EXPECT_EQ(h.max(), s);
  EXPECT_EQ(h.num(), 100);
  EXPECT_NEAR(h.sum(), 10 * s, 1e-6);
  EXPECT_NEAR(h.sum_squares(), 30 * s * s, 1e-6);
  EXPECT_THAT(h.bucket(), ElementsAre(0, 10, 0, 70, 0, 20));
  ASSERT_EQ(h.bucket_limit_size(), 6);
  EXPECT_LT(h.bucket_limit(0), -s);
  EXPECT_NEAR(h.bucket_limit(0) / h.bucket_limit(1), 1.1, 1e-9);
  EXPECT_EQ(h.bucket_limit(2), 0);
  EXPECT_EQ(h.bucket_limit(3), 1e-12);
  EXPECT_LT(h.bucket_limit(4), s);
  EXPECT_GT(h.bucket_limit(5), s);
  EXPECT_NEAR(h.bucket_limit(5) / h.bucket_limit(4), 1.1, 1e-9);
}

TEST(Histogram, MatchesCountingOneByOne) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-50, 30);
  std::vector<float> values;
  for (int i = 0; i < 4000; ++i)
    values.push_back(normal(random) * (i % 2 == 0 ? 1.f : std::exp(exponent(random))));
  const pb::HistogramProto h = HistogramOf(values);
  double num = 0;
  for (int i = 0; i < h.bucket_size(); ++i) {
    EXPECT_EQ(h.bucket(i), CountIn(h, i, values)) << i;
    EXPECT_TRUE(i == 0 || h.bucket_limit(i - 1) < h.bucket_limit(i));
    num += h.bucket(i);
  }
  EXPECT_EQ(num, 4000);
}

TEST(Histogram, AcceptsEveryFiniteValue) {
  const float most = std::numeric_limits<float>::max(), least = 1e-45f;
  const pb::HistogramProto h = HistogramOf(std::vector<float>{-most, -least, -0.f, least, most});
  EXPECT_EQ(h.num(), 5);
  double num = 0;
  for (const double count : h.bucket()) num += count;
  EXPECT_EQ(num, 5);
  EXPECT_EQ(HistogramOf({}).bucket_size(), 0);
}

}  // namespace
}  // namespace tern::tensorboard
