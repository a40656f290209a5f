// Tests jobs in which one thread of a process hangs while the others still send heartbeats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(Hang, AComputeThreadWithoutProgressIsNamedAndEndsTheJob) {
  TestJob job(EndlessJobOptions("faults: {progress_timeout_s: 2}\n"));
  job.StartServer(0);
  job.StartWorker(0, {"--fail", "thread.compute=hang@step:5"});
  job.StartWorker(1);
  EXPECT_EQ(job.server(0).Wait(), 75);
  EXPECT_THAT(job.server(0).err(), ContainsRegex("worker 0 \\(.*\\) was lost at round [0-9]+: its "
                                                 "compute thread has not moved for 2\\.[0-9] s"));
  EXPECT_EQ(job.worker(0).Wait(), 75) << "its process ends although a thread of it hangs";
  EXPECT_EQ(job.worker(1).Wait(), 75);
}

// A thread of worker 0 hangs when it gets something for which it has waited. Another process takes
// its rank, and the job goes on.
class HangWhileItWaits : public testing::TestWithParam<std::string> {};

TEST_P(HangWhileItWaits, IsNoticedAndAReplacementLetIn) {
  TestJob job(EndlessJobOptions("faults: {on_worker_loss: wait, progress_timeout_s: 2}\n"));
  job.StartServer(0);
  TestProgram& stuck_worker = job.StartWorker(0, {"--fail", GetParam() + "=hang@step:5"});
  job.StartWorker(1);
  ASSERT_TRUE(job.WaitForLog("server", 0, "its compute thread has not moved for 2."));
  EXPECT_THAT(job.Log("server", 0), ContainsRegex("worker 0 \\(.*\\) was lost at round"));
  EXPECT_THAT(job.Log("worker", 0), ContainsRegex("training has not moved for 2\\.[0-9] s"));
  job.StartWorker(0);
  ASSERT_TRUE(job.worker(0).WaitForErr("installed the state after round"));
  ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 5));
  EXPECT_EQ(stuck_worker.Wait(), 77) << "its rank is taken";
  job.server(0).Signal(SIGTERM);
  for (TestProgram* program : {&job.server(0), &job.worker(0), &job.worker(1)})
    EXPECT_EQ(program->Wait(), 143);
}

INSTANTIATE_TEST_SUITE_P(Each, HangWhileItWaits, testing::Values("thread.wait", "thread.coder"),
                         [](const auto& info) {
                           return info.param == "thread.wait" ? "OfTheComputeThread"
                                                              : "OfTheCoderThread";
                         });

// A GPU's worker may plan for minutes: the others see that it is there, and what it does.
TEST(Hang, AWorkerThatPlansHasJoinedAndIsNamed) {
  TestJob job(EndlessJobOptions("faults: {progress_timeout_s: 2}\n"));
  job.StartServer(0);
  job.StartWorker(0, {"--fail", "thread.plan=hang:8"});
  job.StartWorker(1);
  ASSERT_TRUE(job.WaitForLog("server", 0, "all 2 workers are here"));
  ASSERT_TRUE(job.WaitForLog("server", 0, "still waiting for worker 0 (it plans its network for "));
  ASSERT_TRUE(job.WaitForTraining());
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

TEST(HangOfAServer, OfALaneIsNamedAndEndsTheJobWhenItLasts) {
  TestJob job(EndlessJobOptions("faults: {progress_timeout_s: 1.5, server_return_timeout_s: 2}\n"));
  job.StartServer(0, {"--fail", "thread.lane=hang@60"});
  for (const uint32_t rank : {0, 1}) job.StartWorker(rank);
  ASSERT_TRUE(job.WaitForLog("server", 0, "the thread of lane 1 has not moved for 1."));
  EXPECT_THAT(job.Log("server", 0), HasSubstr("nanosleep")) << "its stack is in the log";
  ASSERT_TRUE(job.worker(0).WaitForErr("the thread of lane 1 has not moved for 3."));
  job.ExpectAllEnd(75);
}

}  // namespace
}  // namespace tern::e2e
