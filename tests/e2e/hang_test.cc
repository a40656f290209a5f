// Tests jobs in which one thread of a process hangs while the others still send heartbeats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Stops one thread of a process, which no signal can do. Returns false if this system does not
// allow it.
bool StopThread(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return false;
  int wait_status = 0;
  return ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
         waitpid(thread, &wait_status, __WALL) == thread;
}
// Waits until a stopped thread, other than the main thread, has ended with its process. Until then
// the process cannot be waited for, because this test traces the thread.
void AwaitEndOfStoppedThread(pid_t thread) {
  EXPECT_TRUE(WaitUntil([&] { return waitpid(thread, nullptr, __WALL | WNOHANG) == thread; }));
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

// The thread of a process with this name; 0 if it has none.
pid_t ThreadOf(pid_t process, const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator(Cat("/proc/", process, "/task"))) {
    if (ReadFile(entry.path() / "comm") == name + "\n")
      return std::stoi(entry.path().filename().string());
  }
  return 0;
}

// Worker 1 is suspended, so worker 0 waits for its pushes. A thread of worker 0 is stopped then,
// and does not take the sums (the scalers) that arrive when worker 1 runs again.
void ExpectNoticedWhileItWaits(const std::string& thread_name) {
  TestJob job({.workers = 2,
               .steps = 1000000,
               .yaml = "faults: {on_worker_loss: wait, progress_timeout_s: 2}\n"});
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(2));
  TestProgram& stuck_worker = job.worker(0);
  const pid_t process = stuck_worker.pid();
  const pid_t thread = thread_name.empty() ? process : ThreadOf(process, thread_name);
  ASSERT_NE(thread, 0);
  job.worker(1).Signal(SIGSTOP);
  ASSERT_TRUE(job.server(0).WaitForErr("is suspect"));
  if (!StopThread(thread)) GTEST_SKIP() << "this system does not let us stop a thread";
  job.worker(1).Signal(SIGCONT);
  ASSERT_TRUE(job.WaitForLog("server", 0, "its compute thread has not moved for 2."));
  const std::string log = job.Log("server", 0);
  EXPECT_THAT(log, ContainsRegex("worker 0 \\(.*\\) was lost at round"));
  // Another process takes the rank of the one that hangs, and the job goes on.
  job.StartWorker(0);
  ASSERT_TRUE(job.worker(0).WaitForErr("installed the state after round"));
  ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 5));
  if (thread != process) AwaitEndOfStoppedThread(thread);
  EXPECT_EQ(stuck_worker.Wait(), 77) << "its rank is taken";
  job.server(0).Signal(SIGTERM);
  for (TestProgram* program : {&job.server(0), &job.worker(0), &job.worker(1)})
    EXPECT_EQ(program->Wait(), 143);
}

TEST(HangWhileItWaits, OfTheComputeThreadIsNoticedAndAReplacementLetIn) {
  ExpectNoticedWhileItWaits("");
}
TEST(HangWhileItWaits, OfTheCoderThreadIsNoticedAndAReplacementLetIn) {
  ExpectNoticedWhileItWaits("coder");
}

TEST(HangOfAServer, OfALaneIsNamedAndEndsTheJobWhenItLasts) {
  TestJob job(EndlessJobOptions("faults: {progress_timeout_s: 1.5, server_return_timeout_s: 2}\n"));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(2));
  const pid_t thread = ThreadOf(job.server(0).pid(), "lane1");
  ASSERT_NE(thread, 0);
  if (!StopThread(thread)) GTEST_SKIP() << "this system does not let us stop a thread";
  ASSERT_TRUE(job.WaitForLog("server", 0, "the thread of lane 1 has not moved for 1."));
  EXPECT_THAT(job.Log("server", 0), HasSubstr("its stack cannot be read"));
  ASSERT_TRUE(job.worker(0).WaitForErr("the thread of lane 1 has not moved for 3."));
  AwaitEndOfStoppedThread(thread);
  job.ExpectAllEnd(75);
}

}  // namespace
}  // namespace tern::e2e
