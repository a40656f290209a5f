#include "common/base/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/threads.h"

namespace tern {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Registry, ReturnsTheSameCounterForTheSameNameAndLabels) {
  Registry registry;
  Counter& counter1 = registry.GetCounter("tern_x_total", "X.", {{"rank", "1"}});
  Counter& counter1_again = registry.GetCounter("tern_x_total", "X.", {{"rank", "1"}});
  Counter& counter2 = registry.GetCounter("tern_x_total", "X.", {{"rank", "2"}});
  EXPECT_EQ(&counter1, &counter1_again);
  EXPECT_NE(&counter1, &counter2);
}

TEST(Registry, WritesPrometheusText) {
  Registry registry;
  registry.GetGauge("tern_workers", "Workers present.").Set(2.5);
  registry.GetCounter("tern_bytes_total", "Bytes.", {{"direction", "in"}, {"type", "push"}})
      .Add(41);
  registry.GetCounter("tern_bytes_total", "Bytes.", {{"direction", "out"}, {"type", "push"}}).Add();
  registry.GetTimeCounter("tern_wait_seconds_total", "Waiting.")
      .Add(std::chrono::milliseconds(1500));
  Histogram& histogram =
      registry.GetHistogram("tern_step_seconds", "Steps.", {0.5, 1}, {{"rank", "0"}});
  for (const double v : {0.25, 0.5, 0.75, 4.0}) histogram.Observe(v);
  EXPECT_EQ(registry.PrometheusText(),
            "# HELP tern_bytes_total Bytes.\n"
            "# TYPE tern_bytes_total counter\n"
            "tern_bytes_total{direction=\"in\",type=\"push\"} 41\n"
            "tern_bytes_total{direction=\"out\",type=\"push\"} 1\n"
            "# HELP tern_step_seconds Steps.\n"
            "# TYPE tern_step_seconds histogram\n"
            "tern_step_seconds_bucket{rank=\"0\",le=\"0.5\"} 2\n"
            "tern_step_seconds_bucket{rank=\"0\",le=\"1\"} 3\n"
            "tern_step_seconds_bucket{rank=\"0\",le=\"+Inf\"} 4\n"
            "tern_step_seconds_sum{rank=\"0\"} 5.5\n"
            "tern_step_seconds_count{rank=\"0\"} 4\n"
            "# HELP tern_wait_seconds_total Waiting.\n"
            "# TYPE tern_wait_seconds_total counter\n"
            "tern_wait_seconds_total 1.5\n"
            "# HELP tern_workers Workers present.\n"
            "# TYPE tern_workers gauge\n"
            "tern_workers 2.5\n");
}

TEST(Registry, EscapesLabelsAndHelp) {
  Registry registry;
  registry.GetCounter("tern_x_total", "One\nline \"here\".", {{"path", "a\\b\"c\n"}});
  const std::string metrics_text = registry.PrometheusText();
  EXPECT_THAT(metrics_text, HasSubstr("# HELP tern_x_total One\\nline \"here\".\n"));
  EXPECT_THAT(metrics_text, HasSubstr("tern_x_total{path=\"a\\\\b\\\"c\\n\"} 0\n"));
}

TEST(Registry, LeavesOutZerosWhereItIsTold) {
  Registry registry;
  registry.GetCounter("tern_x_total", "X.", {{"type", "push"}}).Add(3);
  registry.GetCounter("tern_x_total", "X.", {{"type", "sum"}});
  registry.GetCounter("tern_y_total", "Y.");
  registry.HideZeros("tern_x_total");
  EXPECT_THAT(registry.PrometheusText(),
              AllOf(HasSubstr("tern_x_total{type=\"push\"} 3\n"), Not(HasSubstr("sum")),
                    HasSubstr("tern_y_total 0\n")));
  EXPECT_EQ(registry.Snapshot().size(), 3u);
}

TEST(Registry, SnapshotListsAllValues) {
  Registry registry;
  registry.GetCounter("tern_b_total", "B.", {{"k", "v"}}).Add(3);
  registry.GetHistogram("tern_a", "A.", {1}).Observe(0.5);
  const std::vector<MetricSample> samples = registry.Snapshot();
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].name, "tern_a_sum");
  EXPECT_EQ(samples[0].value, 0.5);
  EXPECT_EQ(samples[1].name, "tern_a_count");
  EXPECT_EQ(samples[1].value, 1);
  EXPECT_EQ(samples[2].name, "tern_b_total");
  EXPECT_EQ(samples[2].labels, (Labels{{"k", "v"}}));
  EXPECT_EQ(samples[2].value, 3);
}

TEST(RegistryDeathTest, RefusesOneNameWithTwoTypes) {
  Registry registry;
  registry.GetCounter("tern_x", "X.");
  EXPECT_DEATH(registry.GetGauge("tern_x", "X."), "two types");
}

TEST(Histogram, CountsInTheFirstBucketWhoseBoundIsNotBelow) {
  Histogram h(Histogram::ExponentialBounds(1, 2, 3));
  EXPECT_EQ(h.bounds(), (std::vector<double>{1, 2, 4}));
  for (const double v : {0.5, 1.5, 2.0, 3.0, 100.0}) h.Observe(v);
  EXPECT_EQ(h.bucket(0), 1u);
  EXPECT_EQ(h.bucket(1), 2u);
  EXPECT_EQ(h.bucket(2), 1u);
  EXPECT_EQ(h.bucket(3), 1u);
  EXPECT_EQ(h.count(), 5u);
  EXPECT_EQ(h.sum(), 107);
}

TEST(Counters, LoseNothingBetweenThreads) {
  Registry registry;
  constexpr int kThreads = 4, kUpdatesPerThread = 20000;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("counting", [&] {
        Counter& counter = registry.GetCounter("tern_x_total", "X.");
        Gauge& gauge = registry.GetGauge("tern_y", "Y.");
        Histogram& h = registry.GetHistogram("tern_z", "Z.", {1, 2});
        for (int i = 0; i < kUpdatesPerThread; ++i) {
          counter.Add();
          gauge.Add(0.5);
          h.Observe(i % 3);
        }
      });
    }
    registry.PrometheusText();
  }
  EXPECT_EQ(registry.GetCounter("tern_x_total", "X.").value(), kThreads * kUpdatesPerThread);
  EXPECT_EQ(registry.GetGauge("tern_y", "Y.").value(), kThreads * kUpdatesPerThread * 0.5);
  EXPECT_EQ(registry.GetHistogram("tern_z", "Z.", {1, 2}).count(), kThreads * kUpdatesPerThread);
}

TEST(TimeScope, AddsTheTimeOfItsScope) {
  TimeCounter counter;
  const Time begin = Now();
  {
    TimeScope scope(counter);
    while (Now() - begin < std::chrono::milliseconds(2)) {
    }
  }
  EXPECT_GE(counter.value(), std::chrono::milliseconds(2) - std::chrono::microseconds(100));
  EXPECT_LE(counter.value(), Now() - begin);
}

}  // namespace
}  // namespace tern
