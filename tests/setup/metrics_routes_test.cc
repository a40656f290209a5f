// Tests of what every daemon serves on its metrics port.
#include "setup/metrics_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(MetricsRoutes, SayWhatRunsAndWhatIsTrained) {
  const auto setup = SmallSetup();
  setup->commit = "abc123";
  Registry registry;
  registry.GetCounter("tern_x_total", "X.").Add(5);
  setup->hello.set_host("node3");
  const net::HttpRoutes routes = MetricsRoutes(*setup, 2, registry);
  const net::HttpAnswer answer = routes.at("/metrics")();
  EXPECT_EQ(answer.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(
      answer.body,
      AllOf(HasSubstr("\ntern_x_total 5\n"),
            HasSubstr("\ntern_job_info{name=\"small\",model=\"lenet\",codec=\"ternary\",algorithm="
                      "\"ssgd\",rank=\"2\",host=\"node3\"} 1\n"),
            ContainsRegex("tern_build_info.version=\"[0-9.]+\",commit=\"abc123\". 1"),
            HasSubstr("\nprocess_cpu_seconds_total "), HasSubstr("\nprocess_open_fds ")));
}

TEST(MetricsRoutes, EachDaemonHasAPortOfItsOwnOrAllHaveOne) {
  const auto ports = [](const std::vector<std::string>& overrides) {
    const auto setup = SmallSetup(overrides);
    const pb::Metrics& metrics = setup->job.metrics();
    return std::pair<int, int>(ServerMetricsPort(metrics, 2), WorkerMetricsPort(metrics, 3));
  };
  EXPECT_EQ(ports({"metrics.port=7600"}), std::pair(7602, 7703));
  EXPECT_EQ(ports({"metrics.port=7600", "metrics.same_port=true"}), std::pair(7600, 7600));
  EXPECT_EQ(ports({}), std::pair(0, 0));
}

TEST(MetricsRoutes, TheSignpostNamesThePage) {
  const auto setup = SmallSetup({"metrics.port=7600"});
  EXPECT_THAT(SignpostRoute(setup->job, "worker 3")().body,
              AllOf(HasSubstr("worker 3 of the job small"), HasSubstr("/metrics"),
                    HasSubstr("http://127.0.0.1:7600/")));
}

TEST(MetricsRoutes, ThePageIsWhereOthersReachShard0) {
  const auto url = [](const std::vector<std::string>& overrides) {
    return PageUrl(SmallSetup(overrides)->job);
  };
  EXPECT_EQ(url({}), "");
  EXPECT_EQ(url({"metrics.port=7600"}), "http://127.0.0.1:7600/");
  EXPECT_EQ(url({"metrics.port=7600", "metrics.host=node3", "security=none"}),
            "http://node3:7600/");
  EXPECT_EQ(url({"metrics.port=7600", "metrics.host=\"[::1]\""}), "http://[::1]:7600/");
  EXPECT_EQ(url({"metrics.port=7600", "metrics.host=0.0.0.0", "servers.0.address=node1:7500",
                 "security=none"}),
            "http://node1:7600/");
}

}  // namespace
}  // namespace tern::setup
