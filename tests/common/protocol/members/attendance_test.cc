// Tests of which checkpoints workers of a job with `shrink` may lack: ranks without which the job
// went on, and those that joined it since.
#include "common/protocol/members/attendance.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Body = pb::Envelope::BodyCase;

// The offers of workers 0, 1, ... of a job with `shrink`.
class Offers {
 public:
  // Adds a worker with the checkpoints of these steps of the run.
  Offers& Worker(const std::vector<uint64_t>& steps, uint64_t run = 3) {
    return Add(HelloWith(CheckpointsAfter(steps, run), steps.empty() ? 0 : run));
  }
  Offers& Add(pb::Hello hello) {
    hello.set_rank(static_cast<uint32_t>(hellos_.size()));
    hellos_.push_back(std::move(hello));
    return *this;
  }
  Offers& Shard(const std::vector<uint64_t>& steps) {
    hellos_.push_back(HelloWith(CheckpointsAfter(steps), 3));
    hellos_.back().set_role(pb::Hello::shard);
    return *this;
  }
  pb::Hello& back() { return hellos_.back(); }
  std::vector<Offer> All() const {
    std::vector<Offer> offers;
    for (const pb::Hello& hello : hellos_) {
      const bool is_worker = hello.role() != pb::Hello::shard;
      const std::string who = is_worker ? "worker " + std::to_string(hello.rank()) : "a shard";
      offers.push_back({who, &hello, true, is_worker});
    }
    return offers;
  }
  // The step from which the job goes on; 0: from none.
  uint64_t ChosenStep(size_t min_workers = 0) const {
    const BeginPoint begin = ChooseBeginPoint(All(), std::nullopt, kAnyRound, min_workers);
    return begin.checkpoint.has_value() ? begin.checkpoint->step() : 0;
  }

 private:
  std::vector<pb::Hello> hellos_;
};

TEST(Attendance, IsNotOfAWorkerThatTheJobWentOnWithout) {
  EXPECT_EQ(Offers().Worker({200, 250}).Worker({200, 250}).Worker({50, 100}).ChosenStep(), 250u);
  EXPECT_EQ(Offers().Worker({50, 100}).Worker({200, 250}).ChosenStep(), 250u);
}

TEST(Attendance, IsNotOfAnEmptyDisk) {
  EXPECT_EQ(Offers().Worker({}).Worker({200, 250}).Worker({200, 250}).ChosenStep(), 250u);
  EXPECT_EQ(Offers().Add(HelloWithUnfit(false, "damaged")).Worker({200, 250}).ChosenStep(), 250u);
  EXPECT_EQ(Offers().Worker({}).Worker({}).ChosenStep(), 0u);
}

// A stale rank has an old checkpoint that all still have: nobody goes back to it.
TEST(Attendance, LetsNobodyGoBackToAnOldCheckpoint) {
  const std::vector<uint64_t> all_steps = {50, 100, 150, 200, 250};
  EXPECT_EQ(Offers().Worker(all_steps).Worker({50, 100}).ChosenStep(), 250u);
  EXPECT_EQ(Offers().Worker(all_steps).Worker({100, 300}).ChosenStep(), 300u)
      << "it joined after 250, and the others have not written 300";
}

TEST(Attendance, IsOfAWorkerThatIsOneCheckpointBehind) {
  EXPECT_EQ(Offers().Worker({200, 250}).Worker({150, 200}).ChosenStep(), 200u);
  EXPECT_EQ(Offers().Worker({200, 250}).Worker({150, 200}).Worker({50, 100}).ChosenStep(), 200u);
  EXPECT_EQ(
      Offers().Worker({200, 250}).Worker({200, 250}).Worker({150, 200}).Worker({}).ChosenStep(),
      200u);
}

TEST(Attendance, OfOneIsEnoughWhereElseThereIsNone) {
  EXPECT_EQ(Offers().Worker({150, 200}).Worker({250}).ChosenStep(), 250u) << "it joined after 200";
  EXPECT_EQ(Offers().Worker({2, 3}).Worker({4}).ChosenStep(), 4u) << "5 was damaged";
  EXPECT_EQ(Offers().Worker({200}).Worker({250}).ChosenStep(), 250u);
  EXPECT_EQ(Offers().Worker({50}).Worker({}).ChosenStep(), 50u);
}

TEST(Attendance, IsAskedOnlyOfWorkers) {
  EXPECT_EQ(Offers().Worker({200, 250}).Worker({}).Shard({200, 250}).ChosenStep(), 250u);
  EXPECT_EQ(Offers().Worker({200, 250}).Worker({}).Shard({150, 200}).ChosenStep(), 200u);
  EXPECT_EQ(Offers().Worker({200, 250}).Worker({}).Shard({}).ChosenStep(), 0u);
  EXPECT_EQ(Offers().Worker({}).Worker({}).Shard({200, 250}).ChosenStep(), 0u)
      << "no worker has it";
}

TEST(Attendance, IsUnknownOfOtherRuns) {
  EXPECT_EQ(Offers().Worker({50, 100}, 4).Worker({200, 250}, 3).ChosenStep(), 0u);
  EXPECT_EQ(Offers().Worker({200, 250}, 4).Worker({50, 100}, 3).ChosenStep(), 0u);
  const Offers other_job = Offers().Worker({50}).Add(HelloWithUnfit(true, "of another job"));
  EXPECT_EQ(other_job.ChosenStep(), 0u);
}

TEST(Attendance, IsUnknownWhereWeightsDiffer) {
  Offers offers;
  offers.Worker({100, 200, 250});
  offers.back().mutable_checkpoints(0)->set_weights_hash(1);
  offers.Worker({50, 100});
  EXPECT_EQ(offers.ChosenStep(), 250u);
  offers.back().mutable_checkpoints(1)->set_weights_hash(2);
  EXPECT_EQ(offers.ChosenStep(), 0u);
  EXPECT_THAT(WhyNotBeginAnew(offers.All()),
              HasSubstr("the weights in the checkpoint of step 100 differ"));
}

// The disks of many may not be mounted.
TEST(Attendance, OfMinWorkersIsNeeded) {
  const Offers offers = Offers().Worker({50, 100}).Worker({}).Worker({});
  EXPECT_EQ(offers.ChosenStep(1), 100u);
  EXPECT_EQ(offers.ChosenStep(2), 0u);
  EXPECT_THAT(WhyNotBeginAnew(offers.All(), 2),
              HasSubstr("the job goes on from step 100 if as many as workers.min (2)"));
  EXPECT_EQ(Offers().Worker({50}).Add(HelloWith({}, 3)).ChosenStep(2), 50u)
      << "it began the run, and had no checkpoint yet";
}

TEST(Attendance, IsNoMatterWithoutShrink) {
  std::vector<Offer> offers;
  const Offers all = Offers().Worker({200, 250}).Worker({50, 100});
  for (Offer offer : all.All()) {
    offer.may_join_later = false;
    offers.push_back(offer);
  }
  EXPECT_FALSE(ChooseBeginPoint(offers, std::nullopt).checkpoint.has_value());
  EXPECT_THAT(WhyNotBeginAnew(offers), HasSubstr("no checkpoint is on the disks of all"));
}

// Shard 0 of a job with `shrink` and three workers. Worker r is peer 100 + r.
Shard0 MakeShard0() {
  ControlOptions options = TestOptions(1, 3, OnLoss::kShrink);
  options.can_resume = true;
  return Shard0(options);
}

pb::Welcome WelcomeOf(Peer peer, const ControlActions& actions) {
  return FirstMessageTo(peer, Body::kWelcome, SendsOf(actions)).head.welcome();
}

pb::Hello HelloOf(uint32_t rank, uint64_t incarnation, const std::vector<uint64_t>& steps,
                  uint64_t run = 3) {
  pb::Hello hello = TestHello(rank, incarnation);
  hello.MergeFrom(HelloWith(CheckpointsAfter(steps, run)));
  return hello;
}

TEST(Absentee, GetsTheStateOfTheOthersAndIsToldOfTheirCheckpoint) {
  Shard0 shard0 = MakeShard0();
  shard0.Deliver(100, HelloMessage(HelloOf(0, 10, {200, 250})));
  shard0.Deliver(101, HelloMessage(HelloOf(1, 11, {50, 100})));
  const ControlActions out = shard0.Deliver(102, HelloMessage(HelloOf(2, 12, {})));
  ASSERT_TRUE(shard0.coordinator().running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 250u);
  for (const Peer peer : {101, 102}) {
    EXPECT_TRUE(WelcomeOf(peer, out).needs_state());
    EXPECT_FALSE(WelcomeOf(peer, out).has_resume());
    EXPECT_EQ(WelcomeOf(peer, out).others_resume().step(), 250u);
  }
  EXPECT_THAT(Shard0::LogOf(out), HasSubstr("worker 1 (node1, pid 0) has no such checkpoint: it "
                                            "gets the state from the others"));
}

// A running job of two workers that have lost their state: worker 0, then worker 1. Worker 1 comes
// back, without a checkpoint.
class Waiting : public testing::Test {
 protected:
  Waiting() {
    ControlOptions options = TestOptions(1, 2, OnLoss::kShrink);
    options.can_resume = true;
    shard0_ = std::make_unique<Shard0>(options);
    shard0_->GatherWorkers();
    Message heartbeat = HeartbeatMessage(0, 10, 30);
    heartbeat.head.mutable_heartbeat()->mutable_counters()->set_checkpoint_step(60);
    shard0_->Deliver(100, heartbeat);
    shard0_->PassTime(milliseconds(4000), {1});
    shard0_->PassTime(milliseconds(4000), {});
  }
  std::unique_ptr<Shard0> shard0_;
};

TEST_F(Waiting, IsForTheRankThatHasTheOnlyCheckpoint) {
  const ControlActions back = shard0_->Deliver(101, HelloMessage(HelloOf(1, 21, {})));
  EXPECT_EQ(Shard0::EndStatusOf(back).message(), "it goes on");
  EXPECT_FALSE(shard0_->coordinator().running());
  shard0_->PassTime(milliseconds(1000), {1});
  const ControlActions out = shard0_->Deliver(100, HelloMessage(HelloOf(0, 20, {60}, 7)));
  ASSERT_TRUE(shard0_->coordinator().running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 60u);
  EXPECT_EQ(WelcomeOf(101, out).others_resume().step(), 60u);
}

TEST_F(Waiting, IsForARankThatHasANewerCheckpoint) {
  shard0_->Deliver(101, HelloMessage(HelloOf(1, 21, {40}, 7)));
  EXPECT_FALSE(shard0_->coordinator().running());
  shard0_->PassTime(milliseconds(2000), {1});
  EXPECT_FALSE(shard0_->coordinator().running());
  shard0_->PassTime(milliseconds(2000), {1});
  EXPECT_TRUE(shard0_->coordinator().running()) << "the rank does not come back";
}

TEST_F(Waiting, EndsTheJobIfNobodyComesWithACheckpoint) {
  shard0_->Deliver(101, HelloMessage(HelloOf(1, 21, {})));
  const ControlActions out = shard0_->PassTime(milliseconds(61'000), {1});
  EXPECT_EQ(Shard0::AbortTo(101, out).code(), static_cast<uint32_t>(Code::kPeerLost));
}

TEST_F(Waiting, UsesNoCheckpointOfAnotherRun) {
  shard0_->Deliver(101, HelloMessage(HelloOf(1, 21, {200, 250}, 5)));
  EXPECT_FALSE(shard0_->coordinator().running());
  const ControlActions out = shard0_->Deliver(100, HelloMessage(HelloOf(0, 20, {60}, 7)));
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 60u);
  EXPECT_EQ(WelcomeOf(101, out).others_resume().step(), 60u);
}

// A start of a job with four ranks at most, which begins with two. `keeps_state`: whether shard 0
// has checkpoints of its own, of steps 20 and 30.
Shard0 MakeStart(bool keeps_state, uint32_t min_workers = 1) {
  ControlOptions options = TestOptions(1, 4, OnLoss::kShrink);
  options.can_resume = true;
  options.elasticity.begin_workers = 2;
  options.elasticity.min_workers = min_workers;
  options.shard_keeps_state = {keeps_state};
  options.find_saved_checkpoints = [] {
    return SavedCheckpoints{CheckpointsAfter({20, 30}), {}, 3};
  };
  return Shard0(options);
}

TEST(StartOfNewRanks, WaitsForThoseThatHaveTheCheckpoints) {
  Shard0 shard0 = MakeStart(true);
  shard0.Deliver(102, HelloMessage(HelloOf(2, 12, {})));
  EXPECT_THAT(Shard0::LogOf(shard0.Deliver(103, HelloMessage(HelloOf(3, 13, {})))),
              HasSubstr("2 of 4 workers are here, and have no checkpoint from which the job can go "
                        "on; it waits for the others for up to "));
  EXPECT_THAT(Shard0::LogOf(shard0.PassTime(milliseconds(3000), {})),
              testing::Not(HasSubstr("wait")));
  const ControlActions out = shard0.Deliver(100, HelloMessage(HelloOf(0, 10, {20, 30})));
  ASSERT_TRUE(shard0.coordinator().running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 30u);
  EXPECT_EQ(WelcomeOf(102, out).others_resume().step(), 30u);
}

TEST(StartOfNewRanks, WaitsForAsManyAsMustHaveTakenPart) {
  Shard0 shard0 = MakeStart(false, 2);
  shard0.Deliver(100, HelloMessage(HelloOf(0, 10, {20, 30})));
  shard0.Deliver(102, HelloMessage(HelloOf(2, 12, {})));
  EXPECT_FALSE(shard0.coordinator().running());
  const ControlActions out = shard0.Deliver(101, HelloMessage(HelloOf(1, 11, {20, 30})));
  EXPECT_EQ(WelcomeOf(101, out).resume().step(), 30u);
}

// It was lost before it wrote a checkpoint, and the others may have some.
TEST(StartOfNewRanks, WaitsIfOneWasPreparedForARun) {
  Shard0 shard0 = MakeStart(false);
  pb::Hello hello = HelloOf(2, 12, {});
  hello.set_began(3);
  shard0.Deliver(102, HelloMessage(hello));
  shard0.Deliver(103, HelloMessage(HelloOf(3, 13, {})));
  EXPECT_FALSE(shard0.coordinator().running());
  shard0.PassTime(milliseconds(61'000), {2, 3});
  EXPECT_TRUE(shard0.coordinator().running()) << "nobody has a checkpoint";
}

TEST(StartOfNewRanks, IsRefusedAtTheStartTimeoutIfNobodyComesWithACheckpoint) {
  Shard0 shard0 = MakeStart(true);
  shard0.Deliver(102, HelloMessage(HelloOf(2, 12, {})));
  shard0.Deliver(103, HelloMessage(HelloOf(3, 13, {})));
  EXPECT_EQ(Shard0::AbortTo(102, shard0.PassTime(milliseconds(55'000), {2, 3})).code(), 0u);
  const ControlActions out = shard0.PassTime(milliseconds(6'000), {2, 3});
  EXPECT_EQ(Shard0::AbortTo(102, out).code(), static_cast<uint32_t>(Code::kBadData));
}

TEST(StartOfNewRanks, DoesNotWaitWithoutATraceOfARun) {
  Shard0 shard0 = MakeStart(false);
  shard0.Deliver(102, HelloMessage(HelloOf(2, 12, {})));
  shard0.Deliver(103, HelloMessage(HelloOf(3, 13, {})));
  EXPECT_TRUE(shard0.coordinator().running());
}

// Another rank cannot make them fit.
TEST(StartOfNewRanks, DoesNotWaitIfCheckpointsAreOfAnotherJob) {
  Shard0 shard0 = MakeStart(false);
  pb::Hello hello = HelloOf(2, 12, {});
  hello.MergeFrom(HelloWithUnfit(true, "another job's"));
  shard0.Deliver(102, HelloMessage(hello));
  const ControlActions out = shard0.Deliver(103, HelloMessage(HelloOf(3, 13, {})));
  EXPECT_EQ(Shard0::AbortTo(102, out).code(), static_cast<uint32_t>(Code::kBadData));
}

}  // namespace
}  // namespace tern::protocol::test
