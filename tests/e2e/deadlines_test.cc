// Tests how fast the loss of a process is noticed. These tests must run alone, because the time
// limits are for an idle machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "common/base/clock.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::ContainsRegex;

constexpr uint64_t kEndlessSteps = 1000000;

// The round that the message about the loss of worker 1 names; 0 if it names none.
uint64_t RoundOfLoss(const std::string& text) {
  std::smatch match;
  const std::regex sentence(
      R"(worker 1 \([^)]*\) was lost at round ([0-9]+): its connection is closed)");
  return std::regex_search(text, match, sentence) ? std::stoull(match[1]) : 0;
}

TEST(Fail, AKilledWorkerEndsAllOthersWithinFiveSecondsNamingItAndTheRound) {
  TestJob job({.servers = 2, .workers = 3, .steps = kEndlessSteps, .batch_total = 9});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  const Time kill_time = Now();
  job.worker(1).Signal(SIGKILL);
  for (TestProgram* other : {&job.server(0), &job.server(1), &job.worker(0), &job.worker(2)}) {
    EXPECT_EQ(other->Wait(), 75);
    EXPECT_GE(RoundOfLoss(other->err()), 3u) << other->err();
  }
  const double ended_after_s = Seconds(Now() - kill_time);
  RecordProperty("ended_after_s", std::to_string(ended_after_s));
  EXPECT_LT(ended_after_s, 5.0);
  EXPECT_EQ(job.worker(1).Wait(), 128 + SIGKILL);
  EXPECT_EQ(RoundOfLoss(job.Output("server.0.json").dump()), RoundOfLoss(job.server(0).err()));
}

TEST(Wait, AKilledWorkerIsLostBeforeItsSilenceWouldShowItAndIsReplaced) {
  TestJob job({.steps = kEndlessSteps, .yaml = "faults: {on_worker_loss: wait}\n"});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  const Time kill_time = Now();
  job.worker(1).Signal(SIGKILL);
  ASSERT_TRUE(job.WaitForLog("server", 0, "is suspect: its connection is closed"));
  RecordProperty("noticed_after_s", std::to_string(Seconds(Now() - kill_time)));
  ASSERT_TRUE(job.WaitForLog("server", 0, "its connection is closed; waiting for its return"));
  const double lost_after_s = Seconds(Now() - kill_time);
  RecordProperty("lost_after_s", std::to_string(lost_after_s));
  EXPECT_LT(lost_after_s, 2.5);  // dead_after_s is 3
  job.StartWorker(1);
  ASSERT_TRUE(job.WaitForLog("server", 0, "has come back"));
  RecordProperty("replaced_after_s", std::to_string(Seconds(Now() - kill_time)));
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

TEST(Suspect, AStoppedWorkerIsNamedWithinThreeSeconds) {
  TestJob job({.steps = kEndlessSteps});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  const Time stop_time = Now();
  job.worker(1).Signal(SIGSTOP);
  ASSERT_TRUE(job.WaitForLog("server", 0, "is suspect"));
  const double named_after_s = Seconds(Now() - stop_time);
  RecordProperty("named_after_s", std::to_string(named_after_s));
  EXPECT_LT(named_after_s, 3.0);
  job.worker(1).Signal(SIGCONT);
  EXPECT_THAT(
      job.Log("server", 0),
      ContainsRegex("worker 1 \\(.*\\) is suspect: silent for 1\\.[5-9] s, at round [0-9]+"));
  EXPECT_TRUE(job.WaitForLog("server", 0, "is heard again"));
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

}  // namespace
}  // namespace tern::e2e
