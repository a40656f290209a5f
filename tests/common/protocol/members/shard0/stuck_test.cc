// Tests what shard 0 does with a worker whose compute thread hangs, while its net thread still
// sends heartbeats and hellos.
#include <gmock/gmock.h>

#include <limits>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Presence = Coordinator::Worker::Presence;

constexpr uint64_t kProgress = 5;  // the progress at which worker 1 hangs

// Worker 0 advances; worker 1 sends the same heartbeat again and again.
ControlActions HangFor(Time time, Shard0* shard0) {
  ControlActions all_actions;
  for (Time passed{}; passed < time; passed += milliseconds(500)) {
    Shard0::Append(shard0->PassTime(milliseconds(500), {0}), &all_actions);
    Shard0::Append(shard0->Deliver(101, HeartbeatMessage(1, 11, 0, kProgress, false)),
                   &all_actions);
  }
  return all_actions;
}
// A job of two workers, the second of which has just been lost because it hangs.
Shard0 JobWithStuckWorker(OnLoss on_loss) {
  Shard0 shard0(on_loss);
  shard0.GatherWorkers();
  EXPECT_THAT(Shard0::LogOf(HangFor(milliseconds(12'000), &shard0)),
              HasSubstr("its compute thread has not moved for 10."));
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kLost);
  return shard0;
}
// The net thread of the process that hangs says hello as a new incarnation.
pb::Hello HelloOfStuckProcess(uint64_t progress, bool fresh) {
  pb::Hello hello = HelloWithState(1, 21, 0, 1);
  hello.set_fresh(fresh);
  hello.set_progress(progress);
  return hello;
}

// Worker 0 advances; worker 1 says that it has planned its network for `begun` and so on.
ControlActions PlanFor(Time begun, Time time, Shard0* shard0) {
  ControlActions all_actions;
  for (Time passed{}; passed < time; passed += milliseconds(500)) {
    Shard0::Append(shard0->PassTime(milliseconds(500), {0}), &all_actions);
    Message beat = HeartbeatMessage(1, 11, 0, kProgress, true);
    beat.head.mutable_heartbeat()->mutable_counters()->set_planning_s(Seconds(begun + passed));
    Shard0::Append(shard0->Deliver(101, beat), &all_actions);
  }
  return all_actions;
}

TEST(PlanningWorker, IsNamedAndHasMoreTimeThanOneThatIsStuck) {
  Shard0 shard0(OnLoss::kFail);
  shard0.GatherWorkers();
  const ControlActions out = PlanFor(milliseconds(1), milliseconds(20'000), &shard0);
  EXPECT_EQ(Shard0::AbortTo(100, out).sentence(), "");
  EXPECT_THAT(Shard0::LogOf(out),
              HasSubstr("still waiting for worker 1 (it plans its network for 3.5 s)"));
  shard0.Deliver(101, HeartbeatMessage(1, 11, 0, kProgress, true));
  EXPECT_THAT(Shard0::LogOf(HangFor(milliseconds(9'000), &shard0)), Not(HasSubstr("plans")));
}

TEST(PlanningWorker, IsLostAfterTenTimesTheStart) {
  Shard0 shard0(OnLoss::kFail);
  shard0.GatherWorkers();
  const Time start_timeout = TestOptions(1, 2, OnLoss::kFail).timings.start_timeout;
  const ControlActions before =
      PlanFor(10 * start_timeout - milliseconds(600), milliseconds(1'000), &shard0);
  EXPECT_EQ(Shard0::AbortTo(100, before).sentence(), "");
  const ControlActions after = PlanFor(10 * start_timeout, milliseconds(2'000), &shard0);
  EXPECT_THAT(Shard0::AbortTo(100, after).sentence(),
              HasSubstr("was lost at round 1: it plans its network for "));
}

TEST(PlanningWorker, MaySendAnyNumber) {
  for (const double seconds :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Shard0 shard0(OnLoss::kFail);
    shard0.GatherWorkers();
    Message beat = HeartbeatMessage(1, 11, 0);
    beat.head.mutable_heartbeat()->mutable_counters()->set_planning_s(seconds);
    shard0.Deliver(101, beat);
    const ControlActions out = shard0.PassTime(milliseconds(100), {0});
    EXPECT_EQ(Shard0::AbortTo(100, out).has_sentence(), seconds > 0) << seconds;
  }
}

TEST(StuckWorker, DoesNotComeBackUntilItAdvances) {
  Shard0 shard0 = JobWithStuckWorker(OnLoss::kWait);
  const pb::Refuse refuse = Shard0::RefuseTo(
      301, shard0.Deliver(301, HelloMessage(HelloOfStuckProcess(kProgress, false))));
  EXPECT_EQ(refuse.then(), pb::Refuse::retry);
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kLost);
  EXPECT_THAT(
      Shard0::LogOf(shard0.Deliver(301, HelloMessage(HelloOfStuckProcess(kProgress + 1, false)))),
      HasSubstr("has come back"));
  EXPECT_EQ(shard0.workers()[1].incarnation, 21u);
}

TEST(StuckWorker, UnderShrinkDoesNotJoinAgainUntilItAdvances) {
  Shard0 shard0 = JobWithStuckWorker(OnLoss::kShrink);
  for (const bool fresh : {false, true}) {
    const pb::Refuse refuse = Shard0::RefuseTo(
        301, shard0.Deliver(301, HelloMessage(HelloOfStuckProcess(kProgress, fresh))));
    EXPECT_EQ(refuse.then(), pb::Refuse::retry) << fresh;
  }
  shard0.Deliver(301, HelloMessage(HelloOfStuckProcess(kProgress + 1, true)));
  EXPECT_EQ(shard0.workers()[1].incarnation, 21u);
}

TEST(StuckWorker, LeavesItsRankToANewProcess) {
  Shard0 shard0 = JobWithStuckWorker(OnLoss::kWait);
  shard0.Deliver(301, HelloMessage(HelloOfStuckProcess(kProgress, false)));
  shard0.Deliver(302, HelloMessage(TestHello(1, 31)));
  EXPECT_EQ(shard0.workers()[1].incarnation, 31u);
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
}

// A person starts a replacement before the worker counts as lost.
TEST(StuckWorker, DoesNotMakeItsReplacementLeave) {
  Shard0 shard0(OnLoss::kWait);
  shard0.GatherWorkers();
  shard0.Deliver(101, HeartbeatMessage(1, 11, 0, kProgress, false));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Shard0::RefuseTo(301, shard0.Deliver(301, HelloMessage(TestHello(1, 31)))).then(),
              pb::Refuse::retry);
    HangFor(milliseconds(1500), &shard0);
  }
  HangFor(milliseconds(5000), &shard0);
  EXPECT_THAT(Shard0::LogOf(shard0.Deliver(301, HelloMessage(TestHello(1, 31)))),
              Not(HasSubstr("refused")));
  EXPECT_EQ(shard0.workers()[1].incarnation, 31u);
}

}  // namespace
}  // namespace tern::protocol::test
