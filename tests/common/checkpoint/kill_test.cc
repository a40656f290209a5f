// Kills a process that writes checkpoints (kill -9), before and after its system calls. The newest
// complete checkpoint must then be the last that the process had finished, or the one that it was
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

// The last step whose checkpoint the traced process has written completely, in memory that the
// process shares with the test. The process itself reports the step, because the number of its
// system calls differs from execution to execution.
std::atomic<uint64_t>& LastWrittenStep() {
  static auto* const shared_step =
      new (mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<uint64_t>(0);
  return *shared_step;
}

// What the traced process does: it opens the folder, which may have checkpoints, and writes all
// kNumCheckpoints. Its exit code is 0 if it succeeded, and 99 if the system refuses to trace it.
[[noreturn]] void WriteAllCheckpoints(const Owner& owner) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
  raise(SIGSTOP);
  Store store(owner, {.num_of_all = 2});
  (void)store.Open();
  for (uint64_t step = 1; step <= kNumCheckpoints; ++step) {
    const std::vector<float> values = ValuesOf(step);
    if (!store.Write({7, step, step}, Kind::kOfAll, {{"w", {values.size()}, values}}, {}).ok())
      _exit(1);
    LastWrittenStep() = step;
  }
  _exit(0);
}

// Starts a process that runs WriteAllCheckpoints, and kills it when it has stopped `num_stops`
// times at system calls (each call stops it twice, before and after). Returns the exit code if the
// process ended before that; nullopt if it was killed.
std::optional<int> RunUntilStop(const Owner& owner, uint64_t num_stops) {
  LastWrittenStep() = 0;
  const pid_t child = fork();
  if (child == 0) WriteAllCheckpoints(owner);
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  for (uint64_t i = 0; i < num_stops; ++i) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &wait_status, 0);
    if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  }
  kill(child, SIGKILL);
  waitpid(child, &wait_status, 0);
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
  // The step of the newest complete checkpoint; 0: none. Checks the checkpoint's values.
  static uint64_t NewestCompleteStep(const Owner& owner) {
    Store store(owner, {.num_of_all = 2});
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
  uint64_t num_stops = 0;
  for (bool ended = false; !ended; ++num_stops) {
    const Owner owner = OwnerIn(std::to_string(num_stops));
    ended = RunUntilStop(owner, num_stops).has_value();
    const uint64_t newest_step = NewestCompleteStep(owner), last_written = LastWrittenStep();
    EXPECT_GE(newest_step, last_written) << "stop " << num_stops;
    EXPECT_LE(newest_step, last_written + 1) << "stop " << num_stops;
    fs::remove_all(owner.folder);
  }
  EXPECT_EQ(LastWrittenStep(), kNumCheckpoints);
  EXPECT_GT(num_stops, 50u * kNumCheckpoints / 2);  // more than 25 stops per checkpoint
}

// After a process was killed, a second one opens the folder with the checkpoints that are left, and
// writes all kNumCheckpoints.
TEST_F(KillTest, TheNextProcessContinuesFromWhatIsLeft) {
  const std::optional<int> exit_code_without_stops = RunUntilStop(OwnerIn("all"), 0);
  for (uint64_t num_stops = 1; num_stops < 1'000'000; num_stops += 17) {
    const Owner owner = OwnerIn(std::to_string(num_stops));
    const std::optional<int> exit_code = RunUntilStop(owner, num_stops);
    if (exit_code == 99) GTEST_SKIP() << "this system does not let a process be traced";
    const uint64_t step_before = NewestCompleteStep(owner);
    EXPECT_EQ(RunUntilStop(owner, 1'000'000), 0);
    EXPECT_EQ(NewestCompleteStep(owner), kNumCheckpoints) << "after " << step_before;
    for (const auto& entry : fs::directory_iterator(owner.folder))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos);
    fs::remove_all(owner.folder);
    if (exit_code.has_value()) break;
  }
  EXPECT_FALSE(exit_code_without_stops.has_value() && *exit_code_without_stops != 99);
}

}  // namespace
}  // namespace tern::checkpoint
