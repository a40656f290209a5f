// Tests of CpuTargets, the instruction sets that kernels can use on this CPU.
#include "kernels/cpu.h"

#include <gmock/gmock.h>

#include <set>

namespace tern::kernels {
namespace {

TEST(CpuTargets, NamesEachOnceAndTheBestFirst) {
  const std::vector<std::string> targets = CpuTargets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(std::set<std::string>(targets.begin(), targets.end()).size(), targets.size());
}

TEST(CpuTargets, CanBeRestrictedToOneTarget) {
  const std::vector<std::string> targets = CpuTargets();
  for (const std::string& target : targets) {
    EXPECT_TRUE(UseCpuTargetForTest(target));
    EXPECT_THAT(CpuTargets(), testing::ElementsAre(target));
  }
  EXPECT_FALSE(UseCpuTargetForTest("abacus"));
  EXPECT_TRUE(UseCpuTargetForTest(""));
  EXPECT_EQ(CpuTargets(), targets);
}

}  // namespace
}  // namespace tern::kernels
