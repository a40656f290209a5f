// Tests of the metrics that every process has.
#include "common/base/process_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace tern {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::Lt;

double ValueOf(const Registry& registry, const std::string& name) {
  for (const MetricSample& sample : registry.Snapshot())
    if (sample.name == name) return sample.value;
  return -1;
}

TEST(ProcessMetrics, AreThoseOfThisProcess) {
  Registry registry;
  ProcessMetrics metrics(registry);
  EXPECT_THAT(ValueOf(registry, "process_resident_memory_bytes"), AllOf(Gt(1e6), Lt(1e12)));
  EXPECT_GE(ValueOf(registry, "process_virtual_memory_bytes"),
            ValueOf(registry, "process_resident_memory_bytes"));
  EXPECT_GE(ValueOf(registry, "process_max_fds"), ValueOf(registry, "process_open_fds"));
  const double now_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_THAT(ValueOf(registry, "process_start_time_seconds"),
              AllOf(Gt(now_s - 3600), Lt(now_s + 2)));
}

TEST(ProcessMetrics, FollowTheProcess) {
  Registry registry;
  ProcessMetrics metrics(registry);
  const double cpu_s = ValueOf(registry, "process_cpu_seconds_total");
  const double open_fds = ValueOf(registry, "process_open_fds");
  const int fd = dup(0);
  ASSERT_GE(fd, 0);
  for (double now_s = cpu_s; now_s < cpu_s + 0.02;) {
    metrics.Update();
    now_s = ValueOf(registry, "process_cpu_seconds_total");
  }
  EXPECT_EQ(ValueOf(registry, "process_open_fds"), open_fds + 1);
  close(fd);
}

}  // namespace
}  // namespace tern
