// Tests of the folder in which the workers of one job on one host find each other.
#include "client/exchange/host_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

namespace tern::client {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Folders are made in a folder of the test's own.
class HostFolder : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    setenv("TMPDIR", folder_.c_str(), 1);
    setup_.hello.set_job_digest(5);
    setup_.job.add_servers()->set_address("127.0.0.1:7500");
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }
  std::string Make(uint64_t run = 1) {
    const Result<std::string> made = MakeHostFolder(setup_, run);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? *made : "";
  }

  setup::Setup setup_;
  std::string folder_ = "/tmp/tern_hosts_XXXXXX";
};

TEST_F(HostFolder, IsTheSameForAllWorkersOfARunAndPrivate) {
  const std::string made = Make();
  EXPECT_THAT(made, StartsWith(folder_ + "/tern-"));
  struct stat info = {};
  ASSERT_EQ(stat(made.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(Make(), made);
}

TEST_F(HostFolder, IsAnotherForAnotherRunJobOrServer) {
  const std::string made = Make();
  EXPECT_NE(Make(2), made);
  setup_.hello.set_job_digest(6);
  const std::string of_other_job = Make();
  EXPECT_NE(of_other_job, made);
  setup_.job.mutable_servers(0)->set_address("127.0.0.1:7501");
  EXPECT_NE(Make(), of_other_job);
}

TEST_F(HostFolder, IsNotUsedIfOthersCanEnterIt) {
  const std::string made = Make();
  ASSERT_EQ(chmod(made.c_str(), 0750), 0);
  const Status refused = MakeHostFolder(setup_, 1).status();
  EXPECT_EQ(refused.code(), Code::kNotAllowed);
  EXPECT_THAT(refused.message(), HasSubstr(made + " is not a folder that user"));
}

TEST_F(HostFolder, IsNotUsedIfItIsALinkOrAFile) {
  const std::string made = Make(), other = folder_ + "/other";
  std::filesystem::remove(made);
  ASSERT_EQ(mkdir(other.c_str(), 0700), 0);
  std::filesystem::create_directory_symlink(other, made);
  EXPECT_EQ(MakeHostFolder(setup_, 1).status().code(), Code::kNotAllowed);
}

TEST_F(HostFolder, HasToBePossible) {
  setenv("TMPDIR", (folder_ + "/nowhere").c_str(), 1);
  EXPECT_THAT(MakeHostFolder(setup_, 1).status().message(), HasSubstr("cannot make"));
  setenv("TMPDIR", (folder_ + "/" + std::string(100, 'x')).c_str(), 1);
  EXPECT_THAT(MakeHostFolder(setup_, 1).status().message(), HasSubstr("too long for a socket"));
}

}  // namespace
}  // namespace tern::client
