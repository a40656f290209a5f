// Tests what shard 0 does when the connection of a worker is closed: by the death of the worker's
// process, or by the network, after which the worker connects again.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Presence = Coordinator::Worker::Presence;

// A job of two workers that has run for half a second.
Shard0 RunningJob(OnLoss on_loss) {
  Shard0 shard0(on_loss);
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  return shard0;
}

TEST(ClosedConnection, UnderWaitAWorkerIsLostAfterASecondAndMayReturn) {
  Shard0 shard0 = RunningJob(OnLoss::kWait);
  shard0.FindUnreachable(101);
  EXPECT_THAT(Shard0::LogOf(shard0.PassTime(milliseconds(100), {0})),
              HasSubstr("is suspect: its connection is closed, at round 1"));
  shard0.PassTime(milliseconds(800), {0});
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
  const ControlActions out = shard0.PassTime(milliseconds(300), {0});
  EXPECT_THAT(Shard0::LogOf(out),
              HasSubstr("its connection is closed; waiting for its return for up to 20.0 s"));
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kLost);
  EXPECT_TRUE(shard0.workers()[1].may_return);
}

TEST(ClosedConnection, AWorkerThatSaysHelloAgainIsNotLost) {
  for (const OnLoss on_loss : {OnLoss::kFail, OnLoss::kWait, OnLoss::kShrink}) {
    Shard0 shard0 = RunningJob(on_loss);
    shard0.FindUnreachable(101);
    shard0.PassTime(milliseconds(200), {0});
    shard0.Deliver(301, HelloMessage(HelloWithState(1, 11, 4, 1)));
    shard0.FindUnreachable(101);  // the old connection; nothing waits for it any more
    const ControlActions out = shard0.PassTime(milliseconds(3000), {0, 1});
    EXPECT_THAT(Shard0::LogOf(out), Not(HasSubstr("lost"))) << NameOf(on_loss);
    EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
  }
}

// Under these policies a loss is final, so the worker has more time to connect again.
TEST(ClosedConnection, UnderFailAndShrinkAWorkerIsLostAfterSuspectAfter) {
  for (const OnLoss on_loss : {OnLoss::kFail, OnLoss::kShrink}) {
    Shard0 shard0 = RunningJob(on_loss);
    shard0.FindUnreachable(101);
    shard0.PassTime(milliseconds(1900), {0});
    EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent) << NameOf(on_loss);
    const ControlActions out = shard0.PassTime(milliseconds(200), {0});
    EXPECT_EQ(shard0.workers()[1].presence, Presence::kLost) << NameOf(on_loss);
    EXPECT_THAT(Shard0::LogOf(out) + Shard0::AbortTo(100, out).sentence(),
                HasSubstr("its connection is closed"));
    EXPECT_EQ(Shard0::AbortTo(100, out).code() == 0, on_loss == OnLoss::kShrink);
  }
}

// A new process of the rank shows that the old one has died. A new process that asked long ago, and
// was told that the rank is taken, shows nothing.
TEST(ClosedConnection, UnderShrinkANewProcessOfTheRankHasToWaitForASecondOnly) {
  for (const bool asks_again : {true, false}) {
    Shard0 shard0 = RunningJob(OnLoss::kShrink);
    shard0.Deliver(200, HelloMessage(TestHello(1, 20)));
    shard0.PassTime(milliseconds(600), {0, 1});
    shard0.FindUnreachable(101);
    for (int i = 0; i < 11; ++i) {
      if (asks_again) shard0.Deliver(200, HelloMessage(TestHello(1, 20)));
      EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
      shard0.PassTime(milliseconds(100), {0});
    }
    EXPECT_EQ(shard0.workers()[1].presence, asks_again ? Presence::kLost : Presence::kPresent);
  }
}

// The machine of shard 0 may have lost all connections, for example because its address changed.
TEST(ClosedConnection, UnderShrinkNobodyIsLostWhileNobodyIsHeard) {
  Shard0 shard0 = RunningJob(OnLoss::kShrink);
  for (const Peer peer : {100, 101}) shard0.FindUnreachable(peer);
  const ControlActions out = shard0.PassTime(milliseconds(10'000), {});
  EXPECT_THAT(Shard0::LogOf(out), Not(HasSubstr("was lost")));
  for (const uint32_t rank : {0, 1}) EXPECT_EQ(shard0.workers()[rank].presence, Presence::kPresent);
  // Worker 0 is the first to come back; worker 1 has time to follow.
  shard0.Deliver(300, HelloMessage(HelloWithState(0, 10, 4, 1)));
  shard0.PassTime(milliseconds(1900), {0});
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
  shard0.PassTime(milliseconds(200), {0});
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kLost);
}

TEST(ClosedConnection, BeforeTheJobBeginsItsRankIsFreeAtOnce) {
  Shard0 shard0(OnLoss::kFail);
  shard0.Deliver(100, HelloMessage(TestHello(0, 10)));
  shard0.FindUnreachable(100);
  shard0.PassTime(milliseconds(1100), {});
  EXPECT_EQ(shard0.workers()[0].presence, Presence::kAbsent);
  shard0.Deliver(200, HelloMessage(TestHello(0, 20)));
  EXPECT_EQ(shard0.workers()[0].incarnation, 20u);
}

// Worker 0 connects again while the job fails, because worker 1 was lost. It is told so.
TEST(ClosedConnection, AFailingJobWaitsForAWorkerThatConnectsAgain) {
  for (const bool comes_back : {true, false}) {
    Shard0 shard0 = RunningJob(OnLoss::kFail);
    shard0.FindUnreachable(101);
    shard0.PassTime(milliseconds(1900), {0});
    shard0.FindUnreachable(100);
    ControlActions out = shard0.PassTime(milliseconds(500), {});
    EXPECT_NE(Shard0::AbortTo(100, out).code(), 0u);
    EXPECT_EQ(Shard0::EndStatusOf(out).message(), "it goes on");
    if (comes_back) {
      out = shard0.Deliver(300, HelloMessage(HelloWithState(0, 10, 4, 1)));
      EXPECT_THAT(Shard0::AbortTo(300, out).sentence(), HasSubstr("worker 1"));
      Message end;
      end.head.mutable_end();
      out = shard0.Deliver(300, end);
    } else {
      out = shard0.PassTime(milliseconds(700), {});
    }
    EXPECT_EQ(Shard0::EndStatusOf(out).code(), Code::kPeerLost);
  }
}

TEST(ClosedConnection, OfAStrangerChangesNothing) {
  Shard0 shard0 = RunningJob(OnLoss::kWait);
  shard0.FindUnreachable(999);
  shard0.FindUnreachable(0);
  EXPECT_THAT(Shard0::LogOf(shard0.PassTime(milliseconds(2000), {0, 1})), Not(HasSubstr("lost")));
}

}  // namespace
}  // namespace tern::protocol::test
