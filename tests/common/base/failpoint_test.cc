// Tests of failpoints: what --fail accepts, when a failpoint fires, and what it does to the disk
// and to threads.
#include "common/base/failpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "common/base/armed_failpoints.h"
#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/failpoint_flag.h"
#include "common/base/text.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Switches failpoints on, and off at its end.
class Failpoints {
 public:
  explicit Failpoints(const std::vector<std::string>& texts, const std::string& role = "worker") {
    std::vector<Failpoint> failpoints;
    for (const std::string& text : texts) {
      const Result<Failpoint> failpoint = ParseFailpoint(text, role);
      EXPECT_TRUE(failpoint.ok()) << failpoint.status().message();
      if (failpoint.ok()) failpoints.push_back(*failpoint);
    }
    ArmFailpoints(failpoints);
  }
  ~Failpoints() { ArmFailpoints({}); }
  Failpoints(const Failpoints&) = delete;
  Failpoints& operator=(const Failpoints&) = delete;
};

// The numbers of those of the next `num_hits` hits of net.receive at which a failpoint fires.
std::vector<int> FiringHits(int num_hits) {
  std::vector<int> hits;
  for (int hit = 1; hit <= num_hits; ++hit) {
    if (HitFailpoint(FailPlace::kNetReceive).has_value()) hits.push_back(hit);
  }
  return hits;
}

TEST(FailpointWhen, WithoutWhenIsEachTime) {
  const Failpoints failpoints({"net.receive=drop"});
  EXPECT_THAT(FiringHits(3), ElementsAre(1, 2, 3));
}

TEST(FailpointWhen, ANumberIsThatTimeOnly) {
  const Failpoints failpoints({"net.receive=drop@3"});
  EXPECT_THAT(FiringHits(6), ElementsAre(3));
}

TEST(FailpointWhen, ANumberWithPlusIsFromThatTimeOn) {
  const Failpoints failpoints({"net.receive=drop@3+"});
  EXPECT_THAT(FiringHits(5), ElementsAre(3, 4, 5));
}

TEST(FailpointWhen, EveryIsEachNthTime) {
  const Failpoints failpoints({"net.receive=drop@every:4"});
  EXPECT_THAT(FiringHits(9), ElementsAre(4, 8));
}

TEST(FailpointWhen, AStepIsReachedOnce) {
  const Failpoints failpoints({"net.receive=drop@step:7"});
  SetFailpointStep(6);
  EXPECT_THAT(FiringHits(2), ElementsAre());
  SetFailpointStep(8);
  EXPECT_THAT(FiringHits(3), ElementsAre(1));
  SetFailpointStep(0);
}

std::vector<int> HitsWithChance(const std::string& chance_and_seed) {
  const Failpoints failpoints({"net.receive=drop@chance:" + chance_and_seed});
  return FiringHits(1000);
}

TEST(FailpointWhen, AChanceIsAFunctionOfItsSeed) {
  const std::vector<int> hits = HitsWithChance("0.25:5");
  EXPECT_GT(hits.size(), 200u);
  EXPECT_LT(hits.size(), 300u);
  EXPECT_EQ(hits, HitsWithChance("0.25:5"));
  EXPECT_NE(hits, HitsWithChance("0.25:6"));
  EXPECT_EQ(HitsWithChance("1").size(), 1000u);
}

TEST(FailpointWhen, PlacesAreCountedSeparatelyAndAllOfThemAtEachHit) {
  const Failpoints failpoints({"net.send=drop@1", "net.receive=drop@2", "net.receive=flip@3"});
  EXPECT_TRUE(HitFailpoint(FailPlace::kNetSend).has_value());
  EXPECT_THAT(FiringHits(4), ElementsAre(2, 3));
}

TEST(Failpoint, IsOffWithoutAFlag) {
  EXPECT_FALSE(HitFailpoint(FailPlace::kDiskWrite).has_value());
  EXPECT_THAT(FiringHits(3), ElementsAre());
}

void ExpectRefused(const std::string& text, const std::string& role, const std::string& sentence) {
  const Result<Failpoint> failpoint = ParseFailpoint(text, role);
  ASSERT_FALSE(failpoint.ok()) << text;
  EXPECT_EQ(failpoint.status().code(), Code::kUsage) << text;
  EXPECT_THAT(failpoint.status().message(), HasSubstr(sentence)) << text;
  EXPECT_THAT(failpoint.status().message(), HasSubstr("--fail list")) << text;
}

TEST(FailpointFlag, RefusesUnknownPlacesAndActionsAndNamesTheKnownOnes) {
  ExpectRefused("disc.write=full", "worker",
                "tern_worker has no place 'disc.write'; it has disk.write, disk.rename, net.send");
  ExpectRefused("", "worker", "tern_worker has no place ''");
  ExpectRefused("thread.lane=hang", "worker", "tern_worker has no place 'thread.lane'");
  ExpectRefused("thread.coder=hang", "server", "tern_server has no place 'thread.coder'");
  ExpectRefused("disk.write=flip", "server",
                "disk.write has no action 'flip'; it has full torn delay hang die abort;");
  ExpectRefused("disk.write", "server", "disk.write has no action ''");
  ExpectRefused("net.send=\n", "server", "net.send has no action '\\x0a'");
}

TEST(FailpointFlag, RefusesSecondsThatDoNotFit) {
  ExpectRefused("disk.write=full:3", "worker", "full takes no seconds");
  for (const char* text :
       {"net.send=delay", "net.send=delay:", "net.send=delay:x", "net.send=delay:0",
        "net.send=delay:-1", "net.send=delay:nan", "net.send=delay:1e300"})
    ExpectRefused(text, "worker", "delay takes :S, a number of seconds up to");
  ExpectRefused("clock=step:0", "worker", "step takes +S or -S");
  ExpectRefused("clock=step", "worker", "step takes +S or -S");
}

TEST(FailpointFlag, RefusesAWhenThatIsNone) {
  for (const char* when : {"", "0", "-1", "x", "1.5", "every:0", "every:", "chance:0", "chance:2",
                           "chance:0.5:x", "step:", "often:3", "9999999999999999999"})
    ExpectRefused(Cat("net.send=drop@", when), "worker", "allowed: @N, @N+, @every:N, @chance:P");
  ExpectRefused("net.send=drop@step:3", "server", "only a worker knows its step");
}

TEST(FailpointFlag, DescribesThePlacesOfADaemon) {
  EXPECT_THAT(DescribeFailpoints("worker"),
              HasSubstr("\n  thread.coder     the coder thread gets"));
  EXPECT_THAT(DescribeFailpoints("server"), HasSubstr("\n  thread.lane "));
  EXPECT_THAT(DescribeFailpoints("server"), ::testing::Not(HasSubstr("thread.coder")));
}

std::string PathInTempDir(const std::string& name) { return testing::TempDir() + name; }

TEST(FailpointOfTheDisk, FullFailsTheWriteAndKeepsTheOldFile) {
  const std::string path = PathInTempDir("failpoint_full");
  ASSERT_TRUE(WriteFileAtomically(path, "old bytes").ok());
  const Failpoints failpoints({"disk.write=full@1", "disk.rename=full@1"});
  const Status write_status = WriteFileAtomically(path, "new bytes");
  EXPECT_EQ(write_status.code(), Code::kCannotWrite);
  EXPECT_THAT(write_status.message(), HasSubstr("No space left on device"));
  const Status rename_status = WriteFileAtomically(path, "new bytes");
  EXPECT_EQ(rename_status.code(), Code::kCannotWrite);
  EXPECT_THAT(rename_status.message(), HasSubstr("cannot rename"));
  EXPECT_EQ(*ReadWholeFile(path), "old bytes");
  EXPECT_TRUE(WriteFileAtomically(path, "new bytes").ok());
  EXPECT_EQ(*ReadWholeFile(path), "new bytes");
  Disk().Remove(path);
}

TEST(FailpointOfTheDisk, TornWritesHalfWithoutAnError) {
  const std::string path = PathInTempDir("failpoint_torn");
  const Failpoints failpoints({"disk.write=torn"});
  ASSERT_TRUE(Disk().Write(path, "12345678").ok());
  EXPECT_EQ(*ReadWholeFile(path), "1234");
  Disk().Remove(path);
}

TEST(FailpointOfAThread, DelaysAndHangsForSeconds) {
  const Failpoints failpoints({"thread.net=delay:0.02@1", "thread.net=hang:0.03@2"});
  const Time begin = Now();
  EXPECT_FALSE(HitFailpoint(FailPlace::kThreadNet).has_value());
  EXPECT_GE(Now() - begin, std::chrono::milliseconds(20));
  EXPECT_FALSE(HitFailpoint(FailPlace::kThreadNet).has_value());
  EXPECT_GE(Now() - begin, std::chrono::milliseconds(50));
}

void HitComputeWith(const std::string& action) {
  const Failpoints failpoints({"thread.compute=" + action});
  HitFailpoint(FailPlace::kThreadCompute);
}

TEST(FailpointOfAThreadDeathTest, DiesOrAborts) {
  EXPECT_EXIT(HitComputeWith("die"), testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(HitComputeWith("abort"), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace tern
