// `tern launch -H` with a script in place of ssh, which runs what it is told on this machine: hosts
// that hang, that are away, and that do not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/launch/launch_fixture.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kWorker = TERN_WORKER_PROGRAM;

// HOST.pid is the process that is both ssh and Tern on the host. A host with the file HOST.down is
// away; one with the file HOST.silent never answers.
constexpr const char* kSsh = R"(#!/bin/sh
if [ -e "$1.down" ]; then printf 'ssh: connect to host %s port 22: Connection refused\r\n' "$1" >&2; exit 255; fi
if [ -e "$1.silent" ]; then exec sleep 1000; fi
echo $$ > "$1.pid"
shift
export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'
eval "exec $*"
)";

class LaunchHostsTest : public LaunchTest {
 protected:
  LaunchHostsTest() {
    Write("ssh.sh", kSsh);
    EXPECT_EQ(chmod((folder_ + "/ssh.sh").c_str(), 0755), 0);
  }

  TestProgram& LaunchOn(const std::string& hosts, const Words& flags, const Words& program) {
    Words words = {
        "launch", "-H",    hosts,         "--ssh", folder_ + "/ssh.sh",         "--servers",
        "1",      "--job", "client.yaml", "--set", "faults.on_worker_loss=wait"};
    words.insert(words.end(), flags.begin(), flags.end());
    if (!program.empty()) words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return StartTern(words);
  }
  pid_t PidOn(const std::string& host) const { return atoi(Read(host + ".pid").c_str()); }
  void Remove(const std::string& name) const { std::filesystem::remove(folder_ + "/" + name); }
};

TEST_F(LaunchHostsTest, AHostThatHangsCannotHoldUpTheEnd) {
  TestProgram& tern = LaunchOn("nodea,nodeb", {}, {kWorker, "0"});
  ASSERT_TRUE(tern.WaitForOut("[worker 1 on nodeb] step 20\n")) << tern.err();
  kill(PidOn("nodeb"), SIGSTOP);
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(40), 143) << tern.out() << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("\nnodeb does not answer; "));
}

TEST_F(LaunchHostsTest, AHostThatIsAwayIsTriedAgainAndTakesOneRestart) {
  TestProgram& tern =
      LaunchOn("nodea,nodeb:2", {"--restarts", "1", "--set", "workers.count=3"}, {kWorker, "0"});
  ASSERT_TRUE(tern.WaitForOut("[worker 2 on nodeb] step 20\n")) << tern.err();
  Write("nodeb.down", "");
  kill(PidOn("nodeb"), SIGKILL);
  ASSERT_TRUE(tern.WaitForOut("it is tried again every 5 s\n")) << tern.out() << tern.err();
  Remove("nodeb.down");
  ASSERT_TRUE(tern.WaitForOut("worker 1 is back")) << tern.out() << tern.err();
  ASSERT_TRUE(tern.WaitForOut("worker 2 is back")) << tern.out() << tern.err();
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(40), 143) << tern.err();
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("it is started again (1 of 1)"), HasSubstr("1 restarts\n"),
                    HasSubstr("nodeb: ssh: connect to host nodeb port 22: Connection refused; "),
                    Not(ContainsRegex("every 5 s(.|\n)*every 5 s"))));
}

TEST_F(LaunchHostsTest, AHostThatStaysAwayIsGivenUpWhenTheJobNoLongerWaits) {
  TestProgram& tern = LaunchOn(
      "nodea,nodeb", {"--restarts", "1", "--set", "faults.wait_timeout_s=2"}, {kWorker, "0"});
  ASSERT_TRUE(tern.WaitForOut("[worker 1 on nodeb] step 20\n")) << tern.err();
  Write("nodeb.down", "");
  kill(PidOn("nodeb"), SIGKILL);
  EXPECT_EQ(tern.Wait(40), 75) << tern.out();
  EXPECT_THAT(tern.err(), HasSubstr("root cause: worker 1 on nodeb ("));
}

TEST_F(LaunchHostsTest, SaysWhichHostsDoNotAnswer) {
  Write("nodeb.silent", "");
  TestProgram& tern = LaunchOn("nodea,nodeb", {}, {kWorker, "0"});
  ASSERT_TRUE(tern.WaitForOut("still waiting for nodeb (ssh; logs in out/logs/ssh.HOST.stderr)\n"));
  tern.Signal(SIGINT);
  EXPECT_EQ(tern.Wait(20), 130);
}

TEST_F(LaunchHostsTest, ReadsKeyFilesBeforeItReachesHosts) {
  TestProgram& tern =
      LaunchOn("nodea", {"--set", "security=curve", "--set", "keys.dir=nowhere"}, {kWorker, "0"});
  EXPECT_EQ(tern.Wait(20), 78);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("nowhere/shard.0.secret: there is no such file; tern "
                                          "launch needs all files of"),
                                Not(HasSubstr("this daemon's"))));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/nodea.pid"));
}

TEST_F(LaunchHostsTest, ShardsKeepTheKeysOfTheJob) {
  TestProgram& tern = LaunchOn("nodea", {"--set", "servers.0.send_mbit=25"}, {kWorker, "3"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(Read("out/launched_job.yaml"), HasSubstr("send_mbit: 25"));
}

}  // namespace
}  // namespace tern::e2e
