// A job whose state nobody holds goes on from the newest checkpoint that all daemons have: shard
// 0's part.
#include "common/protocol/resume.h"

#include <gmock/gmock.h>

#include "common/protocol/coordinator.h"
#include "tests/protocol/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Body = pb::Envelope::BodyCase;

using Offers = std::vector<pb::Checkpoint>;

pb::Checkpoint At(uint64_t step, uint64_t run = 3) {
  pb::Checkpoint checkpoint;
  checkpoint.set_run(run);
  checkpoint.set_step(step);
  checkpoint.set_round(step / 2);
  return checkpoint;
}

TEST(NewestOfAll, IsTheNewestThatIsInEveryOffer) {
  const Offers a = {At(10), At(20), At(30)}, b = {At(20), At(10)}, c = {At(30), At(20)}, none = {};
  const auto newest = [](const std::vector<const Offers*>& offers) {
    const auto found = NewestOfAll(offers);
    return found.has_value() ? found->step() : 0;
  };
  EXPECT_EQ(newest({&a}), 30u);
  EXPECT_EQ(newest({&a, &b}), 20u);
  EXPECT_EQ(newest({&c, &b, &a}), 20u);
  EXPECT_EQ(newest({&a, &none}), 0u);
  EXPECT_EQ(newest({}), 0u);
  const Offers of_another_run = {At(20, 4)};
  EXPECT_EQ(newest({&a, &of_another_run}), 0u) << "the same step of another run is something else";
}

// Shard 0 of two, two workers; worker r is peer 100 + r, shard 1 is peer 200. Shard 1 keeps
// something where `keeps`.
class Resuming : public testing::Test {
 protected:
  void Make(bool keeps, bool workers_hold_state = true) {
    ControlOptions options = TestOptions(2, 2, OnLoss::kWait);
    options.resumes = true;
    options.keeps = {false, keeps};
    options.workers_hold_state = workers_hold_state;
    coordinator_ = std::make_unique<Coordinator>(std::move(options),
                                                 std::vector{LettersCell({Kind::kFigures, 0, 0})});
    ControlActions out;
    coordinator_->Start(now_, &out);
  }
  ControlActions Hear(Peer from, const Message& message) {
    ControlActions out;
    coordinator_->OnMessage(from, message, now_, &out);
    return out;
  }
  ControlActions ShardComes(const Offers& offers = {}) {
    pb::Hello hello = TestHello(1, 50);
    hello.set_role(pb::Hello::shard);
    for (const pb::Checkpoint& one : offers) *hello.add_checkpoints() = one;
    return Hear(200, Say(hello));
  }
  // One that holds nothing, as all daemons do that have just started.
  ControlActions Comes(uint32_t rank, const Offers& offers = {}, uint64_t life = 1) {
    pb::Hello hello = TestHello(rank, 10 * life + rank);
    for (const pb::Checkpoint& one : offers) *hello.add_checkpoints() = one;
    return Hear(100 + rank, Say(hello));
  }
  ControlActions Pass(Time time) {
    ControlActions all;
    for (const Time end = now_ + time; now_ < end;) {
      now_ += milliseconds(100);
      ControlActions out;
      coordinator_->OnTimer(now_, &out);
      for (ControlAction& action : out) all.push_back(std::move(action));
    }
    return all;
  }
  void Run(bool keeps, bool workers_hold_state = true) {
    Make(keeps, workers_hold_state);
    ShardComes();
    Comes(0);
    Comes(1);
    ASSERT_TRUE(coordinator_->running());
    Hear(100, Beat(0, 10, 25));
    Hear(101, Beat(1, 11, 25));
  }
  void LoseAllWorkers(bool keeps = false) {
    Run(keeps);
    Pass(milliseconds(4000));
  }
  // Worker 1 is lost, and its rank comes again.
  ControlActions OneComesBack(bool keeps_own, const Offers& offers,
                              bool workers_hold_state = true) {
    Run(!workers_hold_state, workers_hold_state);
    for (int i = 0; i < 40; ++i) {
      Pass(milliseconds(100));
      Hear(100, Beat(0, 10, 25));
    }
    pb::Hello hello = TestHello(1, 21);
    hello.set_keeps_own(keeps_own);
    for (const pb::Checkpoint& one : offers) *hello.add_checkpoints() = one;
    return Hear(101, Say(hello));
  }
  static pb::Welcome WelcomeOf(Peer peer, const ControlActions& actions) {
    return First(peer, Body::kWelcome, SendsOf(actions)).head.welcome();
  }
  static pb::Members ToldToShard(const ControlActions& actions) {
    return First(200, Body::kMembers, SendsOf(actions)).head.members();
  }
  static std::string LogOf(const ControlActions& actions) {
    std::string log;
    for (const ControlAction& action : actions) log += action.text + "\n";
    return log;
  }

  std::unique_ptr<Coordinator> coordinator_;
  Time now_ = milliseconds(1000);
};

TEST_F(Resuming, ANewJobBeginsAtTheStart) {
  Make(false);
  ShardComes();
  Comes(0);
  const ControlActions out = Comes(1);
  ASSERT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume());
  EXPECT_FALSE(WelcomeOf(101, out).needs_state());
  EXPECT_EQ(WelcomeOf(101, out).run(), 7u) << "a run of its own";
}

TEST_F(Resuming, AllGoOnFromTheNewestThatAllHave) {
  Make(false);
  ShardComes();
  EXPECT_FALSE(WelcomeOf(100, Comes(0, {At(10), At(20), At(30)})).has_resume());
  const ControlActions out = Comes(1, {At(10), At(20)});
  ASSERT_TRUE(coordinator_->running());
  for (const Peer peer : {100, 101}) {
    const pb::Welcome welcome = WelcomeOf(peer, out);
    EXPECT_EQ(welcome.resume().step(), 20u) << peer;
    EXPECT_EQ(welcome.resume().round(), 10u) << peer;
    EXPECT_TRUE(welcome.needs_state()) << peer;
    EXPECT_EQ(welcome.run(), 3u) << "the run goes on under its name";
  }
  EXPECT_EQ(ToldToShard(out).resume().step(), 20u);
  EXPECT_EQ(ToldToShard(out).begin(), 10u);
  EXPECT_NE(ToldToShard(out).beginning(), 0u);
  EXPECT_THAT(LogOf(out), HasSubstr("all go on from the checkpoint of step 20"));
}

TEST_F(Resuming, OneThatHasNoneMakesItBeginAnew) {
  Make(false);
  ShardComes();
  Comes(0, {At(10), At(20)});
  const ControlActions out = Comes(1);
  ASSERT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(100, out).has_resume());
  EXPECT_EQ(WelcomeOf(100, out).run(), 7u) << "what the first has is of another run from now on";
}

TEST_F(Resuming, AShardThatKeepsSomethingIsWaitedForAndHasToHaveItToo) {
  Make(true);
  Comes(0, {At(10), At(20)});
  Comes(1, {At(10), At(20)});
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = ShardComes({At(10)});
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 10u);
}

TEST_F(Resuming, AWorkerWithStateNeedsNoCheckpoint) {
  Make(false);
  ShardComes();
  Hear(100, Say(Veteran(0, 10, 15, 4)));
  const ControlActions out = Comes(1, {At(10), At(20)});
  ASSERT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume()) << "it gets State from the one that has it";
  EXPECT_TRUE(WelcomeOf(101, out).needs_state());
  EXPECT_FALSE(WelcomeOf(100, out).needs_state());
}

// Both are lost while the servers live: those who come instead offer what they find. The first of
// them comes once more when the second has made it certain that nobody holds the state.
TEST_F(Resuming, ARunThatLostAllItsWorkersGoesBack) {
  LoseAllWorkers();
  Comes(0, {At(10, 7), At(20, 7)}, 2);
  const ControlActions told = Comes(1, {At(10, 7), At(20, 7)}, 2);
  EXPECT_EQ(First(100, Body::kGoBack, SendsOf(told)).head.go_back().incarnation(), 20u);
  const ControlActions out = Comes(0, {At(10, 7), At(20, 7)}, 3);
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 20u) << LogOf(out);
  EXPECT_EQ(WelcomeOf(101, out).resume().step(), 20u);
  EXPECT_EQ(WelcomeOf(101, out).run(), 7u);
}

TEST_F(Resuming, ARunThatLostAllItsWorkersEndsWithoutACommonCheckpoint) {
  LoseAllWorkers();
  Comes(0, {At(10, 7)}, 2);
  Comes(1, {At(20, 7)}, 2);
  const ControlActions out = Comes(0, {At(10, 7)}, 3);
  const pb::Abort abort = First(100, Body::kAbort, SendsOf(out)).head.abort();
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kPeerLost)) << LogOf(out);
  EXPECT_THAT(abort.sentence(), HasSubstr("no checkpoint that all have"));
}

TEST_F(Resuming, AShardThatKeepsSomethingIsAskedWhatItHasByThen) {
  LoseAllWorkers(true);
  Comes(0, {At(10, 7), At(20, 7)}, 2);
  Comes(1, {At(10, 7), At(20, 7)}, 2);
  const ControlActions asked = Comes(0, {At(10, 7), At(20, 7)}, 3);
  EXPECT_TRUE(First(200, Body::kGoBack, SendsOf(asked)).head.has_go_back());
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = ShardComes({At(10, 7)});
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 10u) << LogOf(out);
}

TEST_F(Resuming, OneThatComesBackWithoutWhatItHadOfItsOwnTakesAllBack) {
  const ControlActions told = OneComesBack(true, {At(10, 7), At(20, 7)});
  EXPECT_EQ(First(100, Body::kGoBack, SendsOf(told)).head.go_back().incarnation(), 10u);
  EXPECT_THAT(LogOf(told), HasSubstr("on its disk alone"));
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = Comes(0, {At(20, 7), At(30, 7)}, 2);
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 20u);
  EXPECT_EQ(WelcomeOf(101, out).resume().step(), 20u);
  EXPECT_EQ(WelcomeOf(101, out).run(), 7u);
}

// Its newest alone the others may not have; and what is of another run is of no use.
TEST_F(Resuming, WithoutCheckpointsToGoBackToItGetsStateFromAnother) {
  for (const Offers& offers : {Offers{At(10, 7)}, Offers{At(10, 3), At(20, 3), At(30, 7)}}) {
    const ControlActions out = OneComesBack(true, offers);
    EXPECT_TRUE(coordinator_->running());
    EXPECT_TRUE(WelcomeOf(101, out).needs_state());
    EXPECT_FALSE(WelcomeOf(101, out).has_resume());
  }
}

TEST_F(Resuming, OneThatHadNothingOfItsOwnGetsStateFromAnother) {
  const ControlActions out = OneComesBack(false, {At(10, 7), At(20, 7)});
  EXPECT_TRUE(coordinator_->running());
  EXPECT_TRUE(WelcomeOf(101, out).needs_state());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume());
}

// Without rounds.
TEST_F(Resuming, WhereServersHoldTheStateTheirCheckpointsCountAlone) {
  Make(true, false);
  Comes(0, {At(10), At(50)});
  Comes(1);
  const ControlActions out = ShardComes({At(20), At(30)});
  ASSERT_TRUE(coordinator_->running());
  for (const Peer peer : {100, 101}) EXPECT_EQ(WelcomeOf(peer, out).resume().step(), 30u);
  EXPECT_EQ(ToldToShard(out).resume().step(), 30u);
}

TEST_F(Resuming, WhereServersHoldTheStateOneThatComesBackTakesNobodyBack) {
  const ControlActions out = OneComesBack(true, {At(10, 7), At(20, 7)}, false);
  EXPECT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(101, out).needs_state());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume());
}

}  // namespace
}  // namespace tern::protocol::test
