// Tests of `tern doctor` as a program, on machines with planted faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/text.h"
#include "common/net/tcp_listener.h"
#include "tests/e2e/job_fixture.h"
#include "tools/doctor/disk.h"
#include "tools/doctor/ports.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const char* const kCheckpoints = "checkpoints: {every_steps: 10}\n";

TEST(Doctor, FindsNothingBadOnThisMachine) {
  TestJob job({.yaml = kCheckpoints});
  TestProgram& doctor = job.StartTern({"doctor", job.job_file()});
  EXPECT_EQ(doctor.Wait(), 0) << doctor.err();
  EXPECT_THAT(doctor.out(),
              AllOf(HasSubstr("as a member of the job test: server 0, workers 0-1\n"),
                    HasSubstr("good  open files: "), HasSubstr("good  memory: "),
                    HasSubstr("  cores: "), HasSubstr("  load: "), HasSubstr("  processor: "),
                    HasSubstr("  clock: "), HasSubstr("good  output_dir: "),
                    HasSubstr("good  free disk: "), HasSubstr("  speed of the disk: "),
                    HasSubstr("good  host of server 0: 127.0.0.1 is this machine")));
  EXPECT_THAT(doctor.out(),
              HasSubstr(Cat("good  port of server 0: 127.0.0.1:", job.port(0), " is free\n")));
  EXPECT_THAT(doctor.out(), Not(HasSubstr("bad ")));
  EXPECT_FALSE(std::filesystem::exists(job.output_dir())) << "nothing is written";
}

// LeNet has 431,080 parameters.
TEST(DiskNeeds, CountAllFilesOfWeights) {
  const TestJob job;
  const auto bytes_with = [&job](const std::vector<std::string>& overrides) {
    const auto setup = setup::MakeSetup(job.job_file(), overrides);
    EXPECT_TRUE(setup.ok()) << setup.status().message();
    return setup.ok() ? tools::DiskNeedsOf(**setup, {{0}, {0, 1}}).total_bytes : 0;
  };
  EXPECT_EQ(bytes_with({}), 4u * 431080);
  EXPECT_EQ(bytes_with({"evaluation.every_steps=10", "evaluation.keep_best=true"}), 8u * 431080);
  EXPECT_EQ(bytes_with({"train.freeze=[\"conv*\"]"}), 4u * 431080);
}

TEST(Doctor, NamesTheProgramThatHasThePort) {
  TestJob job;
  const auto listener = net::TcpListener::Listen("127.0.0.1", job.port(0));
  ASSERT_TRUE(listener.ok());
  TestProgram& doctor = job.StartTern({"doctor", job.job_file()});
  EXPECT_EQ(doctor.Wait(), 69);
  // The kernel keeps 15 characters of a program's name.
  const std::string name_in_kernel = std::string("tools_programs_test").substr(0, 15);
  const std::string sentence = Cat("port of server 0: saw that 127.0.0.1:", job.port(0),
                                   " is taken by ", name_in_kernel, " (process ", getpid(), ")");
  EXPECT_THAT(doctor.out(), HasSubstr("bad   " + sentence));
  EXPECT_THAT(doctor.err(), HasSubstr("the job cannot run here: " + sentence));
}

// Worker 1's metrics port is that of server 0.
TEST(Doctor, NamesTwoDaemonsWithOnePort) {
  TestJob job;
  const std::string port = Cat("metrics.port=", job.port(0) - 101);
  TestProgram& doctor = job.StartTern({"doctor", job.job_file(), "--set", port});
  EXPECT_EQ(doctor.Wait(), 78);
  EXPECT_THAT(doctor.out(),
              HasSubstr(Cat("bad   metrics port of worker 1: saw 127.0.0.1:", job.port(0),
                            " of metrics.port, which is also the port of server 0 "
                            "(servers.0.address), expected a port of its own; choose another "
                            "metrics.port")));
  EXPECT_THAT(doctor.out(), HasSubstr(Cat("good  port of server 0: 127.0.0.1:", job.port(0))));
}

// The port of another address is another one.
TEST(Doctor, TakesOnePortOfTwoAddresses) {
  TestJob job;
  TestProgram& doctor =
      job.StartTern({"doctor", job.job_file(), "--set", Cat("metrics.port=", job.port(0) - 101),
                     "--set", "metrics.host=127.0.0.2"});
  EXPECT_EQ(doctor.Wait(), 0) << doctor.err();
}

TEST(Doctor, NamesTheServerThatRunsAlready) {
  TestJob job;
  TestProgram& server = job.StartServer(0);
  ASSERT_TRUE(WaitUntil([&] { return !tools::HolderOfPort(job.port(0)).empty(); }));
  TestProgram& doctor = job.StartTern({"doctor", job.job_file()});
  EXPECT_EQ(doctor.Wait(), 69);
  EXPECT_THAT(doctor.out(),
              HasSubstr(Cat(" is taken by tern_server (process ", server.pid(), ")")));
}

TEST(Doctor, NamesAHostThatDoesNotResolve) {
  TestJob job;
  const std::string host = std::string(70, 'x') + ".invalid";  // Too long for a name server.
  TestProgram& doctor = job.StartTern({"doctor", job.job_file(), "--set", "security=none", "--set",
                                       Cat("servers.0.address=", host, ":7500")});
  EXPECT_EQ(doctor.Wait(), 69);
  EXPECT_THAT(
      doctor.out(),
      AllOf(HasSubstr("job test: worker 0\n"),
            HasSubstr(Cat("bad   host of server 0: the host \"", host, "\" does not resolve"))));
}

TEST(Doctor, WarnsOfTooManyThreads) {
  TestJob job;
  TestProgram& doctor = job.StartTern({"doctor", job.job_file(), "--set", "workers.threads=1024"});
  EXPECT_EQ(doctor.Wait(), 0) << doctor.err();
  EXPECT_THAT(doctor.out(), HasSubstr("warn  cores: saw 2048 threads that compute"));
}

TEST(Doctor, NamesAFullDisk) {
  TestJob job({.yaml = "checkpoints: {every_steps: 1, keep: 1000}\n"});
  TestProgram& doctor = job.StartTern({"doctor", job.job_file(), "--set",
                                       "model.input_height=65536",  // 6.4 GB of weights
                                       "--set", "evaluation.batch=1"});
  EXPECT_EQ(doctor.Wait(), 74);
  EXPECT_THAT(doctor.out(), ContainsRegex("bad   free disk: saw .* free, expected about .* [GT]B"));
}

// The size of files is limited, as a quota limits it: here to 512,000 bytes.
TEST(Doctor, NamesALimitOfTheSizeOfFiles) {
  TestJob job({.yaml = kCheckpoints});
  TestProgram& doctor = job.Start("limited", "/bin/sh",
                                  {"-c", Cat("ulimit -f 1000; exec ", TestJob::BinaryPath("tern"),
                                             " doctor ", job.job_file())});
  EXPECT_EQ(doctor.Wait(), 74);
  EXPECT_THAT(doctor.out(), HasSubstr("bad   size of files: saw a limit of "));
}

TEST(Doctor, NamesAFolderThatCannotBeWritten) {
  TestJob job;
  TestProgram& doctor = job.StartTern({"doctor", job.job_file(), "--set", "output_dir=/proc/none"});
  EXPECT_EQ(doctor.Wait(), 74);
  EXPECT_THAT(doctor.out(), HasSubstr("bad   output_dir: saw that this user cannot write a file in "
                                      "/proc"));
}

// `tern check` finds it, too, since all daemons run on this machine.
TEST(Doctor, NamesADaemonWithoutKeys) {
  TestJob job;
  const std::string folder = job.folder() + "/keys";
  ASSERT_EQ(job.StartTern({"keys", "make", folder, "--job", job.job_file()}).Wait(), 0);
  const std::vector<std::string> settings = {"--set", "security=curve", "--set",
                                             "keys.dir=" + folder};
  const auto start = [&](const std::string& command) -> TestProgram& {
    std::vector<std::string> arguments = {command, job.job_file()};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    return job.StartTern(arguments);
  };
  TestProgram& good = start("doctor");
  EXPECT_EQ(good.Wait(), 0) << good.err();
  EXPECT_THAT(good.out(), HasSubstr("good  keys: the daemons here can read theirs\n"));
  std::filesystem::remove(folder + "/worker.1.secret");
  TestProgram& doctor = start("doctor");
  EXPECT_EQ(doctor.Wait(), 78);
  EXPECT_THAT(doctor.out(),
              AllOf(HasSubstr("bad   keys of worker 1: "), HasSubstr(folder + "/worker.1.secret"),
                    Not(HasSubstr("keys of worker 0"))));
  TestProgram& check = start("check");
  EXPECT_EQ(check.Wait(), 78);
  EXPECT_THAT(check.err(), HasSubstr("keys of worker 1: " + folder + "/worker.1.secret"));
}

TEST(Doctor, RefusesWrongArguments) {
  TestJob job;
  EXPECT_EQ(job.StartTern({"doctor"}).Wait(), 64);
  TestProgram& doctor = job.StartTern({"doctor", job.job_file(), "--workers", "2"});
  EXPECT_EQ(doctor.Wait(), 64);
  EXPECT_THAT(doctor.err(), HasSubstr("--workers: saw '2', expected ranks from 0 to 1"));
}

}  // namespace
}  // namespace tern::e2e
