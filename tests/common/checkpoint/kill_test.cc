// Kills a process that writes checkpoints before and after each of its system calls (kill -9). A
// complete checkpoint must be left: the last that the process had finished, or the one that it was
// writing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>

#include "common/checkpoint/store.h"

namespace tern::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNumCheckpoints = 4;

// The values of the checkpoint after `step`.
std::vector<float> ValuesOf(uint64_t step) {
  return std::vector<float>(5000, static_cast<float>(step));
}

// The last step whose checkpoint the traced process has written completely, in memory that it
// shares with the test. Each process reports its own, because system calls differ from execution to
// execution, so that call number n does not tell the step.
std::atomic<uint64_t>& LastWrittenStep() {
  static auto* const shared =
      new (mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<uint64_t>(0);
  return *shared;
}

// What the traced process does: it opens the folder, which may have checkpoints, and writes all
// kNumCheckpoints. Its exit code is 0 if it succeeded, and 99 if the system refuses to trace it.
[[noreturn]] void WriteAllCheckpoints(const Owner& owner) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
  raise(SIGSTOP);
  Store store(owner, {.of_all = 2});
  (void)store.Open();
  for (uint64_t step = 1; step <= kNumCheckpoints; ++step) {
    const std::vector<float> values = ValuesOf(step);
    if (!store.Write({7, step, step}, Kind::kOfAll, {{"w", {values.size()}, values}}, {}).ok())
      _exit(1);
    LastWrittenStep() = step;
  }
  _exit(0);
}

// Runs WriteAllCheckpoints in a process until its stop number `stop` at a system call (each call
// stops it twice, before and after), and kills it there. Returns the exit code; nullopt if killed.
std::optional<int> RunUntilStop(const Owner& owner, uint64_t stop) {
  LastWrittenStep() = 0;
  const pid_t child = fork();
  if (child == 0) WriteAllCheckpoints(owner);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  for (uint64_t stops = 0; stops < stop; ++stops) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return std::nullopt;
}

class KillTest : public testing::Test {
 protected:
  KillTest() {
    folder_ = testing::TempDir() + "tern_kill_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~KillTest() override { fs::remove_all(folder_); }
  Owner OwnerIn(const std::string& name) const {
    return {folder_ + "/" + name, "worker.0", 2, 11, 12, 13, "seed: 1"};
  }
  // The step of the newest complete checkpoint, whose bytes are checked; 0: none.
  static uint64_t NewestCompleteStep(const Owner& owner) {
    Store store(owner, {.of_all = 2});
    (void)store.Open();
    if (store.points().empty()) return 0;
    const auto file = store.Read(store.points().back());
    EXPECT_TRUE(file.ok()) << file.status().message();
    const uint64_t step = store.points().back().step;
    if (file.ok()) {
      EXPECT_EQ(file->tensors.at(0).values, ValuesOf(step));
    }
    return step;
  }
  std::string folder_;
};

TEST_F(KillTest, AtEverySystemCallLeavesACompleteCheckpoint) {
  const std::optional<int> exit_code = RunUntilStop(OwnerIn("all"), 1'000'000);
  if (exit_code == 99) GTEST_SKIP() << "this system does not let a process be traced";
  ASSERT_EQ(exit_code, 0);
  EXPECT_EQ(NewestCompleteStep(OwnerIn("all")), kNumCheckpoints);
  uint64_t stops = 0;
  for (bool ended = false; !ended; ++stops) {
    const Owner owner = OwnerIn(std::to_string(stops));
    ended = RunUntilStop(owner, stops).has_value();
    const uint64_t newest_step = NewestCompleteStep(owner), last_written = LastWrittenStep();
    EXPECT_GE(newest_step, last_written) << "stop " << stops;
    EXPECT_LE(newest_step, last_written + 1) << "stop " << stops;
    fs::remove_all(owner.folder);
  }
  EXPECT_EQ(LastWrittenStep(), kNumCheckpoints);
  EXPECT_GT(stops, 50u * kNumCheckpoints / 2);  // the process was stopped at the calls that write
}

// After a process was killed, a second one finds the checkpoints that are left, and writes all.
TEST_F(KillTest, TheNextProcessContinuesFromWhatIsLeft) {
  const std::optional<int> exit_code_at_stop_0 = RunUntilStop(OwnerIn("all"), 0);
  for (uint64_t stop = 1; stop < 1'000'000; stop += 17) {
    const Owner owner = OwnerIn(std::to_string(stop));
    const std::optional<int> exit_code = RunUntilStop(owner, stop);
    if (exit_code == 99) GTEST_SKIP() << "this system does not let a process be traced";
    const uint64_t step_before = NewestCompleteStep(owner);
    EXPECT_EQ(RunUntilStop(owner, 1'000'000), 0);
    EXPECT_EQ(NewestCompleteStep(owner), kNumCheckpoints) << "after " << step_before;
    for (const auto& entry : fs::directory_iterator(owner.folder))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos);
    fs::remove_all(owner.folder);
    if (exit_code.has_value()) break;
  }
  EXPECT_FALSE(exit_code_at_stop_0.has_value() && *exit_code_at_stop_0 != 99);
}

}  // namespace
}  // namespace tern::checkpoint
