// Tests of the curve with a bounded number of points.
#include "server/status/thinned_curve.h"

#include <gtest/gtest.h>

#include "server/status/job_status.h"

namespace tern::server {
namespace {

using Curve = ThinnedCurve<LossPoint>;

TEST(ThinnedCurve, KeepsAllPointsWhileThereAreFew) {
  Curve curve;
  for (uint64_t step = 1; step <= Curve::kMaxPoints; ++step) curve.Add({step, 0.5});
  EXPECT_EQ(curve.points().size(), Curve::kMaxPoints);
  EXPECT_EQ(curve.points().front().step, 1u);
}

TEST(ThinnedCurve, NeverHasMorePointsThanItsBound) {
  Curve curve;
  for (uint64_t step = 1; step <= 100'000; step += 1 + step % 3) {
    curve.Add({step, static_cast<double>(step)});
    ASSERT_LE(curve.points().size(), Curve::kMaxPoints);
    ASSERT_EQ(curve.points().back().step, step) << "the newest point is always there";
  }
  EXPECT_EQ(curve.points().front().step, 1u) << "so is the first";
  EXPECT_GE(curve.points().size(), Curve::kMaxPoints / 4);
  uint64_t widest_gap = 0;
  for (size_t i = 1; i < curve.points().size(); ++i) {
    ASSERT_LT(curve.points()[i - 1].step, curve.points()[i].step);
    widest_gap = std::max(widest_gap, curve.points()[i].step - curve.points()[i - 1].step);
  }
  EXPECT_LE(widest_gap, 100'000u / 64) << "no part of the curve is lost";
}

TEST(ThinnedCurve, ForgetsWhatCameAfterAStepToWhichTheJobWentBack) {
  Curve curve;
  for (const uint64_t step : {10, 20, 30, 40}) curve.Add({step, 1});
  curve.Add({20, 2});
  ASSERT_EQ(curve.points().size(), 2u);
  EXPECT_EQ(curve.points()[0].step, 10u);
  EXPECT_EQ(curve.points()[1].step, 20u);
  EXPECT_EQ(curve.points()[1].loss, 2);
}

}  // namespace
}  // namespace tern::server
