// Tests jobs in which the thread hangs that watches all other threads of its process: the net
// thread of a worker, or the control thread of a server. The process then ends by itself, and
// another takes its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::ContainsRegex;

constexpr const char* kFaults = "faults: {on_worker_loss: wait, progress_timeout_s: 1.5}\n";

void ExpectGoesOn(TestJob& job) {
  ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 5));
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

TEST(Watchdog, AWorkerWhoseNetThreadHangsEndsAndAReplacementIsLetIn) {
  TestJob job(EndlessJobOptions(kFaults));
  job.StartServer(0);
  job.StartWorker(0, {"--fail", "thread.net=hang@step:5"});
  job.StartWorker(1);
  TestProgram& hanging_worker = job.worker(0);
  EXPECT_EQ(hanging_worker.Wait(), 75);
  EXPECT_THAT(hanging_worker.err(),
              ContainsRegex("the net thread has not moved for 1\\.[0-9]+ s: its stack:"));
  EXPECT_THAT(hanging_worker.err(),
              ContainsRegex("the net thread has not moved for 3[.0-9]* s, so this process ends"));
  job.StartWorker(0);
  ASSERT_TRUE(job.worker(0).WaitForErr("installed the state after round"));
  ExpectGoesOn(job);
}

TEST(Watchdog, AServerWhoseControlThreadHangsEndsAndAReplacementGoesOn) {
  TestJob job(EndlessJobOptions(kFaults));
  // The job has begun before this turn or begins after it; both ends are the same.
  job.StartServer(0, {"--fail", "thread.control=hang@200"});
  job.StartWorker(0);
  job.StartWorker(1);
  TestProgram& hanging_server = job.server(0);
  EXPECT_EQ(hanging_server.Wait(), 75);
  EXPECT_THAT(hanging_server.err(),
              ContainsRegex("the control thread has not moved for 1\\.[0-9]+ s: its stack:"));
  job.StartServer(0);
  ExpectGoesOn(job);
}

TEST(Watchdog, TernRunRestartsAWorkerWhoseNetThreadHung) {
  JobOptions options;
  options.yaml = kFaults;
  TestJob undisturbed(options);
  undisturbed.StartAll();
  undisturbed.ExpectAllEnd(0);
  TestJob job(options);
  TestProgram& tern = job.StartTern(
      {"run", job.job_file(), "--restarts", "1", "--fail", "worker.0:thread.net=hang@step:5"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_EQ(job.Output("summary.json")["restarts"], 1);
  EXPECT_TRUE(job.Weights() == undisturbed.Weights());
}

}  // namespace
}  // namespace tern::e2e
