// Tests a job with a worker whose compute thread hangs while its net thread still sends heartbeats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::ContainsRegex;

// Stops one thread of a process, which no signal can do. Returns false if this system does not
// allow it.
bool StopThread(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return false;
  int wait_status = 0;
  return ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
         waitpid(thread, &wait_status, __WALL) == thread;
}
void ContinueThread(pid_t thread) { ptrace(PTRACE_DETACH, thread, nullptr, nullptr); }

TEST(Hang, AComputeThreadWithoutProgressIsNamedAndEndsTheJob) {
  // A single worker with a large batch computes nearly all the time. A compute thread that is
  // stopped while it waits for the server would not count as hung.
  TestJob job({.workers = 1,
               .steps = 1000000,
               .batch_total = 200,
               .yaml = "faults: {progress_timeout_s: 2}\n"});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(2));
  const pid_t main_thread = job.worker(0).pid();
  for (int tries = 0; job.server(0).running() && tries < 10; ++tries) {
    if (!StopThread(main_thread)) GTEST_SKIP() << "this system does not let us stop a thread";
    if (!WaitUntil([&] { return !job.server(0).running(); }, 5)) ContinueThread(main_thread);
  }
  EXPECT_EQ(job.server(0).Wait(), 75);
  EXPECT_THAT(job.server(0).err(), ContainsRegex("worker 0 \\(.*\\) was lost at round [0-9]+: its "
                                                 "compute thread has not moved for 2\\.[0-9] s"));
}

}  // namespace
}  // namespace tern::e2e
