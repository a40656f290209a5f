#include "common/base/folder_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/base/text.h"

namespace tern {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FolderLockTest : public ::testing::Test {
 protected:
  FolderLockTest() : parent_(::testing::TempDir() + "tern_lock_XXXXXX") {
    if (mkdtemp(parent_.data()) == nullptr) ADD_FAILURE() << parent_;
    folder_ = parent_ + "/out";
  }
  ~FolderLockTest() override { std::filesystem::remove_all(parent_); }

  std::string parent_, folder_;
};

TEST_F(FolderLockTest, ASecondHolderIsRefusedAndToldWhoHoldsIt) {
  const Result<FolderLock> lock = FolderLock::TryLock(folder_, "job.lock", "lenet");
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_TRUE(lock->is_held());
  EXPECT_EQ(lock->warning(), "");
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  for (const Status& status : {FolderLock::TryLock(folder_, "job.lock", "other").status(),
                               FolderLock::CheckFree(folder_, "job.lock")}) {
    EXPECT_EQ(status.code(), Code::kAddress);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(folder_), HasSubstr(Cat("process ", getpid(), " on ", host.data())),
                      HasSubstr("job 'lenet'"), HasSubstr("--set output_dir=")));
  }
  EXPECT_TRUE(FolderLock::TryLock(folder_, "another.lock", "other").ok());
}

TEST_F(FolderLockTest, IsReleasedByItsDestructorAndTheFileRemains) {
  { const auto lock = FolderLock::TryLock(folder_, "job.lock", "lenet"); }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/job.lock"));
  EXPECT_TRUE(FolderLock::CheckFree(folder_, "job.lock").ok());
  EXPECT_TRUE(FolderLock::TryLock(folder_, "job.lock", "lenet")->is_held());
}

TEST_F(FolderLockTest, AMissingFileIsFree) {
  EXPECT_TRUE(FolderLock::CheckFree(folder_, "job.lock").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

// A program that a process executes inherits open descriptors, but must not inherit the lock.
TEST_F(FolderLockTest, IsNotInheritedByChildPrograms) {
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FolderLock::TryLock(folder_, "job.lock", "lenet");
    execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  ASSERT_GT(child, 0);
  const std::string exe_link = Cat("/proc/", child, "/exe");
  std::error_code ignored_error;
  while (std::filesystem::read_symlink(exe_link, ignored_error) ==
         std::filesystem::read_symlink("/proc/self/exe", ignored_error)) {
    sched_yield();
  }
  std::string holder_line;
  std::getline(std::ifstream(folder_ + "/job.lock"), holder_line);
  EXPECT_EQ(holder_line, Cat("pid: ", child)) << "the child process took the lock";
  // The kernel reports the new program shortly before it closes the files of the old one.
  bool is_locked = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_locked && std::chrono::steady_clock::now() < deadline) {
    is_locked = FolderLock::TryLock(folder_, "job.lock", "lenet").ok();
    sched_yield();
  }
  EXPECT_TRUE(is_locked);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(FolderLockTest, IsReleasedWhenItsHolderIsKilled) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FolderLock::TryLock(folder_, "job.lock", "lenet");
    if (write(pipe_ends[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  ASSERT_GT(child, 0);
  char signal_byte = 0;
  ASSERT_EQ(read(pipe_ends[0], &signal_byte, 1), 1);
  EXPECT_THAT(FolderLock::TryLock(folder_, "job.lock", "lenet").status().message(),
              HasSubstr(Cat("process ", child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(FolderLock::TryLock(folder_, "job.lock", "lenet").ok());
  for (const int pipe_end : pipe_ends) close(pipe_end);
}

// If the system cannot lock the file, as on a file system without locks, the process goes on
// without a lock, and with a warning.
TEST_F(FolderLockTest, IsAWarningIfTheSystemCannotLock) {
  ASSERT_TRUE(std::filesystem::create_directories(folder_));
  ASSERT_EQ(mkfifo((folder_ + "/job.lock").c_str(), 0600), 0);
  const auto lock = FolderLock::TryLock(folder_, "job.lock", "lenet");
  ASSERT_TRUE(lock.ok());
  EXPECT_FALSE(lock->is_held());
  EXPECT_THAT(lock->warning(), HasSubstr(folder_ + "/job.lock"));
  EXPECT_TRUE(FolderLock::CheckFree(folder_, "job.lock").ok());
  EXPECT_FALSE(FolderLock::TryLock("/proc/nowhere", "job.lock", "lenet")->is_held());
}

TEST_F(FolderLockTest, EscapesTheNameOfTheJob) {
  const auto lock = FolderLock::TryLock(folder_, "job.lock", "lenet\npid: 1\x1b[2J");
  EXPECT_THAT(FolderLock::CheckFree(folder_, "job.lock").message(),
              AllOf(HasSubstr(Cat("process ", getpid())), HasSubstr("x0apid: 1")));
}

}  // namespace
}  // namespace tern
