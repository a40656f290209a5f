#include "worker/engine/cuda/cudnn/plan_store.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

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
  ASSERT_TRUE(store.Close().ok());
  EXPECT_EQ(PlanStore(path_).Find("a"), R"({"engine": "\"quoted\""})");
}

TEST_F(PlanStoreTest, WaitsForAProcessThatPlans) {
  std::optional<PlanStore> first_store(std::in_place, path_);
  auto second_plan = std::async(std::launch::async, [this] { return PlanStore(path_).Find("a"); });
  first_store->PutPlan("a", "1");
  EXPECT_EQ(second_plan.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  ASSERT_TRUE(first_store->Close().ok());
  EXPECT_EQ(second_plan.get(), "1");
}

TEST_F(PlanStoreTest, AProcessThatIsKilledWhileItPlansKeepsItsPlans) {
  PlanStore store(path_, PlanStore::kMaxWait, /*save_interval=*/Time(0));
  store.PutPlan("a", "1");
  store.PutPlan("b", "2");
  const PlanStore beside(path_, /*max_wait=*/Time(0));  // The first store still has the lock.
  EXPECT_EQ(beside.Find("a"), "1");
  EXPECT_EQ(beside.Find("b"), "2");
}

TEST_F(PlanStoreTest, WithoutTheLockKeepsThePlansThatOthersWroteMeanwhile) {
  PlanStore store(path_), store_without_lock(path_, /*max_wait=*/Time(0));
  store_without_lock.PutPlan("mine", "1");
  store_without_lock.PutPlan("both", "1");
  store.PutPlan("other", "2");
  store.PutPlan("both", "2");
  ASSERT_TRUE(store.Close().ok());
  ASSERT_TRUE(store_without_lock.Close().ok());
  const PlanStore merged_store(path_);
  EXPECT_EQ(merged_store.Find("mine"), "1");
  EXPECT_EQ(merged_store.Find("other"), "2");
  EXPECT_EQ(merged_store.Find("both"), "2") << "other processes may use it already";
}

// The plan is as long as the one that the process knows, so the file has as many bytes.
TEST_F(PlanStoreTest, SeesWhatAnotherProcessHasWritten) {
  PlanStore store(path_);
  store.PutPlan("a", "1");
  ASSERT_TRUE(store.Close().ok());
  EXPECT_EQ(PlanStore(path_).Find("a"), "1");
  std::ofstream(path_ + ".new") << "{\n \"a\": \"2\"\n}\n";
  std::filesystem::rename(path_ + ".new", path_);
  PlanStore later_store(path_);
  EXPECT_EQ(later_store.Find("a"), "2");
  later_store.PutPlan("b", "3");
  ASSERT_TRUE(later_store.Close().ok());
  const PlanStore last_store(path_);
  EXPECT_EQ(last_store.Find("a"), "2");
  EXPECT_EQ(last_store.Find("b"), "3");
  std::filesystem::remove(path_);
  EXPECT_EQ(PlanStore(path_, /*max_wait=*/Time(0)).Find("a"), std::nullopt);
}

TEST_F(PlanStoreTest, ReadsAFileOnceThatDoesNotChange) {
  PlanStore store(path_);
  store.PutPlan("a", "1");
  ASSERT_TRUE(store.Close().ok());
  const auto time = std::filesystem::last_write_time(path_);
  std::ofstream(path_) << "{\n \"a\": \"2\"\n}\n";
  std::filesystem::last_write_time(path_, time);
  EXPECT_EQ(PlanStore(path_).Find("a"), "1") << "it looks as the store wrote it";
  std::filesystem::last_write_time(path_, time + std::chrono::nanoseconds(1));
  EXPECT_EQ(PlanStore(path_).Find("a"), "2");
}

TEST_F(PlanStoreTest, APlanForTheProcessAloneIsInNoFile) {
  PlanStore store(path_);
  store.KeepPlan("for_now", "1");
  store.PutPlan("put", "2");
  EXPECT_EQ(store.Find("for_now"), "1");
  ASSERT_TRUE(store.Close().ok());
  EXPECT_EQ(PlanStore(path_).Find("for_now"), "1");
  std::ifstream file(path_);
  EXPECT_EQ(nlohmann::json::parse(file), nlohmann::json({{"put", "2"}}));
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
  EXPECT_THAT(store.Close().message(), testing::HasSubstr("/proc/nowhere/plans.json"));
  PlanStore store_without_path("");
  store_without_path.PutPlan("a", "1");
  EXPECT_TRUE(store_without_path.Close().ok()) << "there is no file to write";
}

TEST_F(PlanStoreTest, KeepsInTheProcessWhatCannotBeWritten) {
  for (const char* path : {"", "/proc/nowhere/kept.json"}) {
    for (const char* plan : {"1", "2"}) {
      PlanStore store(path, /*max_wait=*/Time(0));
      store.PutPlan("kept", plan);
      (void)store.Close();
      EXPECT_EQ(PlanStore(path, /*max_wait=*/Time(0)).Find("kept"), plan) << path;
    }
  }
  EXPECT_EQ(PlanStore(path_).Find("kept"), std::nullopt);
}

}  // namespace
}  // namespace tern::engine
