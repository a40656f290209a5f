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

// Counts one by one the values between the limits `bucket` - 1 and `bucket` of the histogram.
double CountInBucket(const pb::HistogramProto& histogram, int bucket,
                     const std::vector<float>& values) {
  double count = 0;
  for (const float value : values) {
    const double lower_limit = bucket == 0 ? -HUGE_VAL : histogram.bucket_limit(bucket - 1),
                 upper_limit = histogram.bucket_limit(bucket);
    count += value < 0 ? (value > lower_limit && value <= upper_limit)
                       : (value >= lower_limit && value < upper_limit);
  }
  return count;
}

TEST(Histogram, ShowsTernaryCodesAsThreeNarrowSpikes) {
  const float scaler = 0.37f;
  std::vector<float> values(70, 0.f);
  values.insert(values.end(), 10, -scaler);
  values.insert(values.end(), 20, scaler);
  const pb::HistogramProto histogram = HistogramOf(values);
  EXPECT_EQ(histogram.min(), -scaler);
  EXPECT_EQ(histogram.max(), scaler);
  EXPECT_EQ(histogram.num(), 100);
  EXPECT_NEAR(histogram.sum(), 10 * scaler, 1e-6);
  EXPECT_NEAR(histogram.sum_squares(), 30 * scaler * scaler, 1e-6);
  EXPECT_THAT(histogram.bucket(), ElementsAre(0, 10, 0, 70, 0, 20));
  ASSERT_EQ(histogram.bucket_limit_size(), 6);
  EXPECT_LT(histogram.bucket_limit(0), -scaler);
  EXPECT_NEAR(histogram.bucket_limit(0) / histogram.bucket_limit(1), 1.1, 1e-9);
  EXPECT_EQ(histogram.bucket_limit(2), 0);
  EXPECT_EQ(histogram.bucket_limit(3), 1e-12);
  EXPECT_LT(histogram.bucket_limit(4), scaler);
  EXPECT_GT(histogram.bucket_limit(5), scaler);
  EXPECT_NEAR(histogram.bucket_limit(5) / histogram.bucket_limit(4), 1.1, 1e-9);
}

TEST(Histogram, MatchesCountingOneByOne) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-50, 30);
  std::vector<float> values;
  for (int i = 0; i < 4000; ++i)
    values.push_back(normal(random) * (i % 2 == 0 ? 1.f : std::exp(exponent(random))));
  const pb::HistogramProto histogram = HistogramOf(values);
  double bucket_sum = 0;
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    EXPECT_EQ(histogram.bucket(i), CountInBucket(histogram, i, values)) << i;
    EXPECT_TRUE(i == 0 || histogram.bucket_limit(i - 1) < histogram.bucket_limit(i));
    bucket_sum += histogram.bucket(i);
  }
  EXPECT_EQ(bucket_sum, 4000);
}

TEST(Histogram, AcceptsEveryFiniteValue) {
  const float largest = std::numeric_limits<float>::max(), smallest = 1e-45f;
  const pb::HistogramProto histogram =
      HistogramOf(std::vector<float>{-largest, -smallest, -0.f, smallest, largest});
  EXPECT_EQ(histogram.num(), 5);
  double bucket_sum = 0;
  for (const double count : histogram.bucket()) bucket_sum += count;
  EXPECT_EQ(bucket_sum, 5);
  EXPECT_EQ(HistogramOf({}).bucket_size(), 0);
}

}  // namespace
}  // namespace tern::tensorboard
