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
  store.PutPlan("a", R"({"engine": "\"quoted\""})");
  EXPECT_EQ(store.Find("a"), R"({"engine": "\"quoted\""})");
  ASSERT_TRUE(store.Save().ok());
  EXPECT_EQ(PlanStore(path_).Find("a"), R"({"engine": "\"quoted\""})");
}

TEST_F(PlanStoreTest, KeepsPlansThatOthersWroteMeanwhile) {
  PlanStore my_store(path_), other_store(path_);
  my_store.PutPlan("mine", "1");
  other_store.PutPlan("other", "2");
  ASSERT_TRUE(other_store.Save().ok());
  ASSERT_TRUE(my_store.Save().ok());
  const PlanStore merged_store(path_);
  EXPECT_EQ(merged_store.Find("mine"), "1");
  EXPECT_EQ(merged_store.Find("other"), "2");
}

TEST_F(PlanStoreTest, IgnoresOtherFiles) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  for (const char* bad_contents : {"", "[1, 2]", "{\"a\": 7}", "{\"a\": \"cut"}) {
    std::ofstream(path_) << bad_contents;
    EXPECT_EQ(PlanStore(path_).Find("a"), std::nullopt) << bad_contents;
  }
}

TEST_F(PlanStoreTest, NamesAnUnwritableFile) {
  PlanStore store("/proc/nowhere/plans.json");
  store.PutPlan("a", "1");
  EXPECT_THAT(store.Save().message(), testing::HasSubstr("/proc/nowhere/plans.json"));
  PlanStore store_without_path("");
  store_without_path.PutPlan("a", "1");
  EXPECT_TRUE(store_without_path.Save().ok()) << "it was to keep nothing";
}

}  // namespace
}  // namespace tern::engine
