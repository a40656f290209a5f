#include "worker/engine/cuda/cudnn/plan_store.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tern::engine {
namespace {

class PlanStoreTest : public testing::Test {
 protected:
  PlanStoreTest() : path_(testing::TempDir() + "plans_of_test/deeper/plans.json") {
    std::filesystem::remove_all(testing::TempDir() + "plans_of_test");
  }
  const std::string path_;
};

TEST_F(PlanStoreTest, KeepsPlansFromRunToRun) {
  PlanStore store(path_);
  EXPECT_EQ(store.Find("a"), std::nullopt);
  store.Put("a", R"({"engine": "\"quoted\""})");
  EXPECT_EQ(store.Find("a"), R"({"engine": "\"quoted\""})");
  ASSERT_TRUE(store.Save().ok());
  EXPECT_EQ(PlanStore(path_).Find("a"), R"({"engine": "\"quoted\""})");
}

TEST_F(PlanStoreTest, KeepsPlansThatOthersWroteMeanwhile) {
  PlanStore mine(path_), other(path_);
  mine.Put("mine", "1");
  other.Put("other", "2");
  ASSERT_TRUE(other.Save().ok());
  ASSERT_TRUE(mine.Save().ok());
  const PlanStore merged(path_);
  EXPECT_EQ(merged.Find("mine"), "1");
  EXPECT_EQ(merged.Find("other"), "2");
}

TEST_F(PlanStoreTest, IgnoresOtherFiles) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  for (const char* bad : {"", "[1, 2]", "{\"a\": 7}", "{\"a\": \"cut"}) {
    std::ofstream(path_) << bad;
    EXPECT_EQ(PlanStore(path_).Find("a"), std::nullopt) << bad;
  }
}

TEST_F(PlanStoreTest, NamesAnUnwritableFile) {
  PlanStore store("/proc/nowhere/plans.json");
  store.Put("a", "1");
  EXPECT_THAT(store.Save().message(), testing::HasSubstr("/proc/nowhere/plans.json"));
  PlanStore without_path("");
  without_path.Put("a", "1");
  EXPECT_TRUE(without_path.Save().ok()) << "it was to keep nothing";
}

}  // namespace
}  // namespace tern::engine
