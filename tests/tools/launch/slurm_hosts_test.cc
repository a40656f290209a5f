#include "tools/launch/slurm_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::tools {
namespace {

using ::testing::HasSubstr;

TEST(SlurmHosts, NodesHaveTheTasksThatSlurmSays) {
  const auto hosts = ParseSlurmHosts("a1\na2\na3\nb7\n", "2(x3),1");
  ASSERT_TRUE(hosts.ok()) << hosts.status().message();
  EXPECT_EQ(*hosts, (std::vector<Host>{{"a1", 2}, {"a2", 2}, {"a3", 2}, {"b7", 1}}));
  EXPECT_EQ(*ParseSlurmHosts("a\nb\n", "1,4"), (std::vector<Host>{{"a", 1}, {"b", 4}}));
}

TEST(SlurmHosts, WhatDoesNotAgreeIsAUsageError) {
  for (const char* tasks : {"", "2", "2(x3)", "2(x2", "2(x2)x", "two", "1,,1", "2(3)"}) {
    const auto hosts = ParseSlurmHosts("a\nb\n", tasks);
    EXPECT_EQ(hosts.status().code(), Code::kUsage) << tasks;
    EXPECT_THAT(hosts.status().message(), HasSubstr("SLURM_TASKS_PER_NODE: saw '")) << tasks;
  }
}

}  // namespace
}  // namespace tern::tools
