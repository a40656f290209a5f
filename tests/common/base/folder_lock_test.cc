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
  const Result<FolderLock> first = FolderLock::Take(folder_, "job.lock", "lenet");
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_TRUE(first->held());
  EXPECT_EQ(first->warning(), "");
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  for (const Status& status : {FolderLock::Take(folder_, "job.lock", "other").status(),
                               FolderLock::CheckFree(folder_, "job.lock")}) {
    EXPECT_EQ(status.code(), Code::kAddress);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(folder_), HasSubstr(Cat("process ", getpid(), " on ", host.data())),
                      HasSubstr("job 'lenet'"), HasSubstr("--set output_dir=")));
  }
  EXPECT_TRUE(FolderLock::Take(folder_, "another.lock", "other").ok());
}

TEST_F(FolderLockTest, IsReleasedByItsDestructorAndTheFileRemains) {
  { const auto first = FolderLock::Take(folder_, "job.lock", "lenet"); }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/job.lock"));
  EXPECT_TRUE(FolderLock::CheckFree(folder_, "job.lock").ok());
  EXPECT_TRUE(FolderLock::Take(folder_, "job.lock", "lenet")->held());
}

TEST_F(FolderLockTest, AMissingFileIsFree) {
  EXPECT_TRUE(FolderLock::CheckFree(folder_, "job.lock").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

// A program that a process executes inherits open descriptors, but must not inherit the lock.
TEST_F(FolderLockTest, IsNotInheritedByChildPrograms) {
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FolderLock::Take(folder_, "job.lock", "lenet");
    execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  ASSERT_GT(child, 0);
  const std::string exe = Cat("/proc/", child, "/exe");
  std::error_code none;
  while (std::filesystem::read_symlink(exe, none) ==
         std::filesystem::read_symlink("/proc/self/exe", none)) {
    sched_yield();
  }
  std::string holder;
  std::getline(std::ifstream(folder_ + "/job.lock"), holder);
  EXPECT_EQ(holder, Cat("pid: ", child)) << "the child had it";
  // The kernel reports the new program shortly before it closes the files of the old one.
  bool taken = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!taken && std::chrono::steady_clock::now() < deadline) {
    taken = FolderLock::Take(folder_, "job.lock", "lenet").ok();
    sched_yield();
  }
  EXPECT_TRUE(taken);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(FolderLockTest, IsReleasedWhenItsHolderIsKilled) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FolderLock::Take(folder_, "job.lock", "lenet");
    if (write(ends[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  ASSERT_GT(child, 0);
  char taken = 0;
  ASSERT_EQ(read(ends[0], &taken, 1), 1);
  EXPECT_THAT(FolderLock::Take(folder_, "job.lock", "lenet").status().message(),
              HasSubstr(Cat("process ", child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(FolderLock::Take(folder_, "job.lock", "lenet").ok());
  for (const int end : ends) close(end);
}

// This also covers a file system without locks: no lock, but a warning.
TEST_F(FolderLockTest, IsAWarningIfTheSystemCannotLock) {
  ASSERT_TRUE(std::filesystem::create_directories(folder_));
  ASSERT_EQ(mkfifo((folder_ + "/job.lock").c_str(), 0600), 0);
  const auto lock = FolderLock::Take(folder_, "job.lock", "lenet");
  ASSERT_TRUE(lock.ok());
  EXPECT_FALSE(lock->held());
  EXPECT_THAT(lock->warning(), HasSubstr(folder_ + "/job.lock"));
  EXPECT_TRUE(FolderLock::CheckFree(folder_, "job.lock").ok());
  EXPECT_FALSE(FolderLock::Take("/proc/nowhere", "job.lock", "lenet")->held());
}

TEST_F(FolderLockTest, EscapesTheNameOfTheJob) {
  const auto lock = FolderLock::Take(folder_, "job.lock", "lenet\npid: 1\x1b[2J");
  EXPECT_THAT(FolderLock::CheckFree(folder_, "job.lock").message(),
              AllOf(HasSubstr(Cat("process ", getpid())), HasSubstr("x0apid: 1")));
}

}  // namespace
}  // namespace tern
