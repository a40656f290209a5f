// Tests of `tern keys`: what it writes and prints, and that it never overwrites keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "common/base/text.h"
#include "setup/security.h"
#include "setup/setup.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using net::Principal;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

unsigned ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TestProgram& MakeKeys(TestJob& job, const std::string& folder,
                      const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"keys", "make", folder, "--job", job.job_file()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return job.StartTern(arguments);
}

TEST(Keys, OfAllDaemonsAreMadeAndFit) {
  TestJob job({.servers = 2, .workers = 3, .batch_total = 6});
  const std::string folder = job.folder() + "/keys";
  TestProgram& tern = MakeKeys(job, folder);
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_EQ(ModeOf(folder), 0700u);
  for (const std::string name : {"shard.0.secret", "shard.1.secret", "worker.0.secret",
                                 "worker.1.secret", "worker.2.secret", "checkpoint.secret"}) {
    EXPECT_EQ(ModeOf(folder + "/" + name), 0600u) << name;
    EXPECT_THAT(ReadFile(folder + "/" + name), SizeIs(41)) << name;
    const std::string secret = ReadFile(folder + "/" + name).substr(0, 40);
    EXPECT_THAT(tern.out() + tern.err() + ReadFile(folder + "/peers"), Not(HasSubstr(secret)));
  }
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("security: curve\n  keys: {dir: \"" + folder + "\"}"),
                    HasSubstr("2 server shards and 3 workers"), HasSubstr("shard.1.secret")));
  const auto setup = setup::MakeSetup(
      job.job_file(),
      {"security=curve", "keys.dir=" + folder, "keys.checkpoint=" + folder + "/checkpoint.secret"});
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  for (const Principal& self :
       {Principal{Principal::Role::kShard, 0}, Principal{Principal::Role::kShard, 1},
        Principal{Principal::Role::kWorker, 0}, Principal{Principal::Role::kWorker, 2}}) {
    const auto security = setup::LoadSecurity((*setup)->job, self, -1);
    ASSERT_TRUE(security.ok()) << security.status().message();
    EXPECT_THAT(security->servers, SizeIs(2));
  }
  EXPECT_TRUE(setup::LoadCheckpointSecret((*setup)->job).ok());
}

TEST(Keys, AreNeverOverwritten) {
  TestJob job;
  const std::string folder = job.folder() + "/keys";
  ASSERT_EQ(MakeKeys(job, folder).Wait(), 0);
  const std::string secret = ReadFile(folder + "/worker.0.secret"),
                    peers = ReadFile(folder + "/peers");
  TestProgram& again = MakeKeys(job, folder);
  EXPECT_EQ(again.Wait(), 74);
  EXPECT_THAT(again.err(), HasSubstr("keys are never overwritten"));
  EXPECT_EQ(ReadFile(folder + "/worker.0.secret"), secret);
  EXPECT_EQ(ReadFile(folder + "/peers"), peers);
}

TEST(Keys, AreNotWrittenWhereOthersMayRead) {
  TestJob job;
  const std::string folder = job.folder() + "/keys";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  TestProgram& tern = MakeKeys(job, folder);
  EXPECT_EQ(tern.Wait(), 74);
  EXPECT_THAT(tern.err(), HasSubstr("others may use this folder"));
  std::filesystem::permissions(folder, std::filesystem::perms(0700));
  EXPECT_EQ(MakeKeys(job, folder).Wait(), 0);
}

TEST(Keys, NeedAJobAndAFolder) {
  TestJob job;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"keys"},
        {"keys", "make"},
        {"keys", "make", job.folder() + "/k"},
        {"keys", "show", job.folder() + "/k", "--job", job.job_file()}}) {
    TestProgram& tern = job.StartTern(arguments);
    EXPECT_EQ(tern.Wait(), 64);
    EXPECT_THAT(tern.err(), HasSubstr("--help`"));
  }
  TestProgram& tern = MakeKeys(job, job.folder() + "/no/such/folder");
  EXPECT_EQ(tern.Wait(), 74);
  EXPECT_THAT(tern.err(), HasSubstr("cannot make the folder"));
}

}  // namespace
}  // namespace tern::e2e
