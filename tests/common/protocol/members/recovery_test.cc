// Shard 0's part of recovery: a job whose state no daemon holds continues from the newest
// checkpoint that all daemons have.
#include "common/protocol/members/recovery.h"

#include <gmock/gmock.h>

#include "common/protocol/members/shard0/coordinator.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Body = pb::Envelope::BodyCase;

using Offers = std::vector<pb::Checkpoint>;

pb::Checkpoint At(uint64_t step, uint64_t run = 3) {
  pb::Checkpoint checkpoint = CheckpointAt(step, run);
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

pb::Hello Had(const Offers& checkpoints, uint64_t began = 0) {
  pb::Hello hello;
  for (const pb::Checkpoint& one : checkpoints) *hello.add_checkpoints() = one;
  hello.set_began(began);
  return hello;
}
pb::Hello HadUnfit(bool other_job, const std::string& sentence) {
  pb::Hello hello;
  hello.mutable_unfit()->set_other_job(other_job);
  hello.mutable_unfit()->set_sentence(sentence);
  return hello;
}
// The offers of workers 0, 1, ..., each on its own node.
std::string WhyNot(const std::vector<pb::Hello>& hellos) {
  std::vector<Offer> offers;
  for (const pb::Hello& hello : hellos) {
    const std::string number = std::to_string(offers.size());
    offers.push_back({"worker " + number + " (node" + number + ")", &hello});
  }
  return WhyNotAnew(offers);
}

constexpr char kMissing[] =
    "; mount or restore what is missing and start again, or begin anew with --set "
    "checkpoints.resume=false, which keeps what is there under another name";

TEST(WhyNotAnew, IsEmptyWhereNobodyHasAny) {
  EXPECT_EQ(WhyNot({Had({}), Had({})}), "");
  EXPECT_EQ(WhyNot({Had({}, 3), Had({})}), "") << "a run that began and got no further";
  EXPECT_EQ(WhyNot({}), "");
}

TEST(WhyNotAnew, SaysWhoHasWhat) {
  EXPECT_EQ(WhyNot({Had({At(100), At(200), At(390)}, 3), Had({})}),
            std::string("no checkpoint is on the disks of all: worker 0 (node0) has steps 100 to "
                        "390; worker 1 (node1) has none") +
                kMissing);
  EXPECT_THAT(WhyNot({Had({At(10), At(20)}), Had({At(10), At(20)}), Had({At(30)})}),
              HasSubstr("worker 0 (node0), worker 1 (node1) have steps 10 and 20; worker 2 (node2) "
                        "has step 30;"));
}

TEST(WhyNotAnew, TellsDamagedOnesFromNone) {
  EXPECT_THAT(
      WhyNot({Had({}), HadUnfit(false, "/a has checkpoints up to step 20, which are damaged")}),
      HasSubstr("worker 0 (node0) has none; worker 1 (node1) has none that is whole: /a has "
                "checkpoints up to step 20, which are damaged; mount or restore"));
}

TEST(WhyNotAnew, NamesTheRunsWhereTheyDiffer) {
  EXPECT_THAT(WhyNot({Had({At(10, 3), At(20, 3)}), Had({At(10, 4), At(20, 4)})}),
              HasSubstr("worker 0 (node0) has steps 10 and 20 of run 0000000000000003; worker 1 "
                        "(node1) has steps 10 and 20 of run 0000000000000004"));
}

TEST(WhyNotAnew, NamesAFewOfMany) {
  std::vector<pb::Hello> hellos(100, Had({At(10), At(20)}));
  hellos[99] = Had({});
  EXPECT_THAT(WhyNot(hellos), HasSubstr("worker 5 (node5) and 93 more have steps 10 and 20; worker "
                                        "99 (node99) has none"));
  for (uint64_t rank = 0; rank < 100; ++rank) hellos[rank] = Had({At(10 + rank), At(500 + rank)});
  EXPECT_LT(WhyNot(hellos).size(), 1000u);
  EXPECT_THAT(WhyNot(hellos), HasSubstr("the others differ too (100 kinds)"));
}

TEST(WhyNotAnew, TellsOfAnotherJobFirst) {
  const std::string why = WhyNot({Had({}), HadUnfit(true,
                                                    "/a has checkpoints up to step 390 of "
                                                    "another job: seed was 1, is now 2")});
  EXPECT_EQ(
      why,
      "this job does not fit the checkpoints of worker 1 (node1): /a has checkpoints up to "
      "step 390 of another job: seed was 1, is now 2; start the job that wrote them, give another "
      "output_dir, or begin anew with --set checkpoints.resume=false, which keeps what is there "
      "under another name");
  EXPECT_THAT(WhyNot({HadUnfit(true, "x"), HadUnfit(true, "y"), HadUnfit(true, "z")}),
              HasSubstr("of worker 0 (node0) and 2 more daemons: x;"));
}

TEST(WhyNotAnew, TakesNoControlCharactersFromAPeer) {
  const std::string why = WhyNot({HadUnfit(true, "a\nb" + std::string(5000, 'c'))});
  EXPECT_LT(why.size(), 1000u);
  EXPECT_EQ(WhyNot({HadUnfit(true, "a\nb")}).find('\n'), std::string::npos);
}

// All daemons were killed when some had written their first checkpoint and some had not.
TEST(WhyNotAnew, IsEmptyWhereARunEndedBeforeAllHadTheirFirst) {
  EXPECT_EQ(WhyNot({Had({At(10)}, 3), Had({}, 3)}), "");
  EXPECT_NE(WhyNot({Had({At(10)}, 3), Had({}, 4)}), "") << "another run began there";
  EXPECT_NE(WhyNot({Had({At(10)}, 3), Had({})}), "") << "no run began there: a disk is missing";
  EXPECT_NE(WhyNot({Had({At(10), At(20)}, 3), Had({}, 3)}), "") << "it had one";
  EXPECT_NE(WhyNot({Had({At(10, 4)}, 3), Had({}, 3)}), "") << "of another run";
  EXPECT_NE(WhyNot({Had({At(10)}, 3), Had({}, 3), HadUnfit(false, "damaged")}), "");
}

Saved LaneHad(const Offers& checkpoints, uint64_t began) { return {checkpoints, {}, began}; }

TEST(CommonOf, HasWhatAllLanesHave) {
  EXPECT_EQ(CommonOf({}).began, 0u);
  const Saved common = CommonOf({LaneHad({At(10), At(20)}, 3), LaneHad({At(20), At(30)}, 3)});
  ASSERT_EQ(common.checkpoints.size(), 1u);
  EXPECT_EQ(common.checkpoints[0].step(), 20u);
  EXPECT_FALSE(common.unfit.has_sentence());
}

TEST(CommonOf, SaysWhereLanesHaveNothingInCommon) {
  const Saved lost = CommonOf({LaneHad({At(10), At(20)}, 3), LaneHad({}, 0)});
  EXPECT_TRUE(lost.checkpoints.empty());
  EXPECT_EQ(lost.unfit.sentence(), "its data lanes have no checkpoint in common");
  EXPECT_EQ(lost.began, 0u);
  const Saved early = CommonOf({LaneHad({At(10)}, 3), LaneHad({}, 3)});
  EXPECT_FALSE(early.unfit.has_sentence()) << "the other lane had not come to its first";
  EXPECT_EQ(early.began, 3u);
  Saved other = LaneHad({}, 0);
  other.unfit.set_other_job(true);
  other.unfit.set_sentence("of another job");
  EXPECT_EQ(CommonOf({LaneHad({At(10), At(20)}, 3), other}).unfit.sentence(), "of another job");
}

std::vector<uint64_t> StepsOf(const Offers& offers) {
  std::vector<uint64_t> steps;
  for (const pb::Checkpoint& one : offers) steps.push_back(one.step());
  return steps;
}

TEST(CommonOf, TakesALanesOwnForCommonOnlyWhereAllLanesDo) {
  Saved first = LaneHad({At(10), At(20)}, 3), second = LaneHad({At(10)}, 3);
  first.shard_checkpoints = {At(14), At(18)};
  // The shard died when the second lane did not know yet that all daemons had 20, too.
  second.shard_checkpoints = {At(12), At(14), At(20)};
  const Saved common = CommonOf({first, second});
  EXPECT_THAT(StepsOf(common.checkpoints), ElementsAre(10u));
  EXPECT_THAT(StepsOf(common.shard_checkpoints), ElementsAre(14u, 20u));
  EXPECT_FALSE(common.unfit.has_sentence());
}

// Two lanes (a server's sockets and their threads) close rounds at most `window` apart and write a
// checkpoint every `every` rounds. Even if one lane has lost its newest checkpoint, there is one
// that both have kept.
TEST(LeastToKeep, ReachesBackToOneThatAllLanesHave) {
  for (const uint64_t every : {1, 2, 3, 10, 1000}) {
    for (const uint64_t window : {1, 2}) {
      const uint64_t keep = LeastToKeep(every, window);
      for (uint64_t slow = 100 * every; slow < 101 * every; ++slow) {
        const uint64_t fast = slow + window;
        const uint64_t oldest_of_fast = (fast / every - (keep - 1)) * every;
        const uint64_t newest_of_slow = (slow / every - 1) * every;
        EXPECT_LE(oldest_of_fast, newest_of_slow) << every << ", " << window;
      }
    }
  }
}

TEST(Choose, TakesWhatAllHaveUnlessShardsOfARunUnderWayHaveNewer) {
  pb::Hello worker = Had({At(10, 7), At(20, 7)}), first = worker, second = worker;
  first.set_role(pb::Hello::shard);
  second.set_role(pb::Hello::shard);
  for (const uint64_t step : {24, 26, 28}) *first.add_shard_checkpoints() = At(step, 7);
  for (const uint64_t step : {22, 24, 26}) *second.add_shard_checkpoints() = At(step, 7);
  const std::vector<Offer> offers = {{"a", &worker}, {"b", &first}, {"c", &second}};
  const Begin anew = Choose(offers, std::nullopt);
  EXPECT_EQ(anew.from->step(), 20u);
  EXPECT_TRUE(anew.workers_load);
  const Begin under_way = Choose(offers, 7);
  EXPECT_EQ(under_way.from->step(), 26u);
  EXPECT_EQ(under_way.round(), 13u);
  EXPECT_FALSE(under_way.workers_load);
  EXPECT_EQ(Choose(offers, 8).from->step(), 20u) << "of another run";
  second.clear_shard_checkpoints();
  EXPECT_TRUE(Choose(offers, 7).workers_load) << "as new as the shards', and the workers have it";
  worker.clear_checkpoints();
  EXPECT_EQ(Choose(offers, 7).from->step(), 20u) << "shards alone";
  EXPECT_FALSE(Choose(offers, 7).workers_load);
  EXPECT_FALSE(Choose(offers, std::nullopt).from.has_value());
  EXPECT_EQ(Choose(offers, std::nullopt).round(), 0u);
}

TEST(HasAny, DoesNotCountAShardsOwn) {
  pb::Hello hello;
  *hello.add_shard_checkpoints() = At(10);
  EXPECT_FALSE(HasAny({{"a", &hello}}));
  *hello.add_checkpoints() = At(10);
  EXPECT_TRUE(HasAny({{"a", &hello}}));
}

// Shard 0 of a job with two shards and two workers. Worker r is peer 100 + r, shard 1 is peer 200.
// `keeps`: whether shard 1 keeps state.
class Resuming : public testing::Test {
 protected:
  void Make(bool keeps, bool workers_hold_state = true, bool from_shards = false) {
    ControlOptions options = TestOptions(2, 2, OnLoss::kWait);
    options.resumes = resumes_;
    options.keeps = {false, keeps};
    options.workers_hold_state = workers_hold_state;
    options.begins_from_shards = from_shards;
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
  // The hello of a daemon that has just started and holds no state.
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
  // Worker 1 is lost, and a new process takes its rank.
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

  bool resumes_ = true;
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

// The job is started again, now without checkpoints.every_steps, but resumes from those it finds.
TEST_F(Resuming, AJobThatWritesNoneLooksAtWhatThereIs) {
  resumes_ = false;
  Make(false);
  ShardComes();
  Comes(0, {At(10), At(20)});
  const ControlActions out = Comes(1, {At(10), At(20)});
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(101, out).resume().step(), 20u);
  Make(false);
  ShardComes();
  Comes(0, {At(10), At(20)});
  EXPECT_THAT(First(101, Body::kAbort, SendsOf(Comes(1))).head.abort().sentence(),
              HasSubstr("worker 1 (node1) has none"));
  Make(false);
  ShardComes();
  Comes(0);
  const pb::Members members = ToldToShard(Comes(1));
  EXPECT_TRUE(coordinator_->running());
  EXPECT_FALSE(members.has_beginning()) << "there is nothing to look at";
}

TEST_F(Resuming, WhereOneHasNoneTheStartEndsAndEverybodyIsToldWhoHasWhat) {
  Make(false);
  ShardComes();
  Comes(0, {At(10), At(20)});
  const ControlActions out = Comes(1);
  EXPECT_FALSE(coordinator_->running());
  for (const Peer peer : {100, 101, 200}) {
    const pb::Abort abort = First(peer, Body::kAbort, SendsOf(out)).head.abort();
    EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData)) << peer;
    EXPECT_THAT(abort.sentence(),
                HasSubstr("worker 0 (node0) has steps 10 and 20; worker 1 (node1) "
                          "has none"))
        << peer;
  }
}

TEST_F(Resuming, TheStartEndsOnceAllShardsCanBeTold) {
  Make(false);
  Comes(0, {At(10), At(20)});
  EXPECT_FALSE(First(100, Body::kAbort, SendsOf(Comes(1))).head.has_abort());
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = ShardComes();
  EXPECT_TRUE(First(100, Body::kAbort, SendsOf(out)).head.has_abort());
  EXPECT_TRUE(First(200, Body::kAbort, SendsOf(out)).head.has_abort());
}

TEST_F(Resuming, WhereTheCheckpointsAreOfAnotherJobTheStartEnds) {
  Make(false);
  ShardComes();
  Comes(0);
  pb::Hello hello = TestHello(1, 11);
  *hello.mutable_unfit() = HadUnfit(true, "/a is of another job").unfit();
  const ControlActions out = Hear(101, Say(hello));
  EXPECT_FALSE(coordinator_->running());
  const pb::Abort abort = First(100, Body::kAbort, SendsOf(out)).head.abort();
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData));
  EXPECT_THAT(abort.sentence(), HasSubstr("worker 1 (node1): /a is of another job"));
}

// A disk may hold unusable checkpoints, if all have another common one or a live worker has the
// state.
TEST_F(Resuming, WhatIsUnfitDoesNotEndAJobThatCanGoOn) {
  for (const bool held : {false, true}) {
    Make(false);
    ShardComes();
    held ? Hear(100, Say(Veteran(0, 10, 15, 4))) : Comes(0, {At(10)});
    pb::Hello hello = TestHello(1, 11);
    if (!held) *hello.add_checkpoints() = At(10);
    *hello.mutable_unfit() = HadUnfit(true, "/a is of another job").unfit();
    Hear(101, Say(hello));
    EXPECT_TRUE(coordinator_->running());
  }
}

TEST_F(Resuming, ARunThatEndedBeforeItsFirstCommonCheckpointBeginsAnewAndSaysSo) {
  Make(false);
  ShardComes();
  pb::Hello first = Had({At(10)}, 3), second = Had({}, 3);
  first.MergeFrom(TestHello(0, 10));
  second.MergeFrom(TestHello(1, 11));
  Hear(100, Say(first));
  const ControlActions out = Hear(101, Say(second));
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(100, out).run(), 7u) << "as another run";
  EXPECT_FALSE(WelcomeOf(100, out).has_resume());
  EXPECT_THAT(LogOf(out), HasSubstr("before all had written their first checkpoint"));
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

// Both workers are lost while the servers live. Their successors offer the checkpoints that they
// find. The first successor says hello twice, because only the second shows that no worker holds
// the state.
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

// Worker 1's checkpoints do not help: other daemons may lack its newest one, and one of another run
// cannot be used.
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

// The algorithm has no rounds: the servers hold the state.
TEST_F(Resuming, WhereServersHoldTheStateTheirCheckpointsCountAlone) {
  Make(true, false);
  Comes(0, {At(10), At(50)});
  Comes(1);
  const ControlActions out = ShardComes({At(20), At(30)});
  ASSERT_TRUE(coordinator_->running());
  for (const Peer peer : {100, 101}) EXPECT_EQ(WelcomeOf(peer, out).resume().step(), 30u);
  EXPECT_EQ(ToldToShard(out).resume().step(), 30u);
}

// The workers' own checkpoints cannot replace it, but they show that the job had begun.
TEST_F(Resuming, WhereServersHeldTheStateAndLostItsDiskTheStartEnds) {
  Make(true, false);
  Comes(0, {At(10), At(50)});
  Comes(1);
  const ControlActions out = ShardComes({});
  EXPECT_FALSE(coordinator_->running());
  EXPECT_THAT(First(100, Body::kAbort, SendsOf(out)).head.abort().sentence(),
              HasSubstr("worker 0 (node0) has steps 10 and 50; server shard 1 (node1) has none"));
}

TEST_F(Resuming, WhereServersHoldTheWeightsOfRoundsTheStartEndsTheSameWay) {
  Make(true, true, true);
  Comes(0, {At(10), At(20)});
  Comes(1, {At(10), At(20)});
  const ControlActions out = ShardComes({});
  EXPECT_FALSE(coordinator_->running());
  EXPECT_THAT(First(100, Body::kAbort, SendsOf(out)).head.abort().sentence(),
              HasSubstr("server shard 1 (node1) has none"));
}

TEST_F(Resuming, AShardThatCannotGoOnEndsTheJob) {
  Run(true);
  Message message;
  message.head.mutable_abort()->set_code(static_cast<uint32_t>(Code::kBadData));
  message.head.mutable_abort()->set_sentence("cannot move the checkpoints");
  EXPECT_TRUE(SendsOf(Hear(100, message)).empty()) << "a worker has no say in this";
  const pb::Abort abort = First(101, Body::kAbort, SendsOf(Hear(200, message))).head.abort();
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData));
  EXPECT_EQ(abort.sentence(), "server shard 1 cannot go on: cannot move the checkpoints");
}

TEST_F(Resuming, WhereShard0CannotGoOnTheJobEnds) {
  Run(false);
  ControlActions out;
  coordinator_->OnFailure(Status(Code::kBadData, "cannot move"), now_, &out);
  EXPECT_EQ(First(100, Body::kAbort, SendsOf(out)).head.abort().sentence(),
            "server shard 0 cannot go on: cannot move");
  ControlActions again;
  coordinator_->OnFailure(Status(Code::kBadData, "cannot move"), now_, &again);
  EXPECT_TRUE(again.empty());
}

TEST_F(Resuming, WhereServersHoldTheStateOneThatComesBackTakesNobodyBack) {
  const ControlActions out = OneComesBack(true, {At(10, 7), At(20, 7)}, false);
  EXPECT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(101, out).needs_state());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume());
}

}  // namespace
}  // namespace tern::protocol::test
