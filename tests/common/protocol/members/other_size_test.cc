// Tests of jobs that go on from a checkpoint with another number of workers or other server shards
// than they had when they wrote it: which daemons must have the checkpoint, and what shard 0 tells
// those that need not.
#include <gmock/gmock.h>

#include "common/protocol/members/recovery.h"
#include "common/protocol/members/session/session.h"
#include "tests/common/protocol/members/shard0/shard0.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Body = pb::Envelope::BodyCase;

pb::Checkpoint OfWorkers(uint32_t workers, pb::Checkpoint checkpoint) {
  checkpoint.set_workers(workers);
  return checkpoint;
}
pb::Checkpoint OfShards(uint32_t shards, pb::Checkpoint checkpoint) {
  checkpoint.set_shards(shards);
  return checkpoint;
}

// What begins, given the checkpoints of workers 0, 1, ..., and of shards.
std::optional<pb::Checkpoint> Chosen(const std::vector<Checkpoints>& of_workers,
                                     const std::vector<Checkpoints>& of_shards = {}) {
  std::vector<pb::Hello> hellos;
  for (const Checkpoints& checkpoints : of_workers) {
    hellos.push_back(HelloWith(checkpoints));
    hellos.back().set_rank(static_cast<uint32_t>(hellos.size() - 1));
  }
  for (const Checkpoints& checkpoints : of_shards) {
    hellos.push_back(HelloWith(checkpoints));
    hellos.back().set_role(pb::Hello::shard);
  }
  std::vector<Offer> offers;
  for (const pb::Hello& hello : hellos) offers.push_back({"a daemon", &hello});
  return ChooseBeginPoint(offers, std::nullopt).checkpoint;
}

TEST(Choice, NeedsNoCheckpointOfRanksThatWereNotThere) {
  const pb::Checkpoint c10 = OfWorkers(2, CheckpointAfter(10)),
                       c20 = OfWorkers(2, CheckpointAfter(20));
  EXPECT_EQ(Chosen({{c10, c20}, {c10, c20}, {}, {}})->step(), 20u);
  EXPECT_EQ(Chosen({{c10, c20}, {c10}, {}})->step(), 10u) << "rank 1 was there";
  EXPECT_FALSE(Chosen({{c10, c20}, {}, {}}).has_value());
  EXPECT_FALSE(Chosen({{}, {}, {}}).has_value());
}

// With `shrink`, a rank below workers.max may have been empty.
TEST(Choice, NeedsNoCheckpointOfWorkersThatMayJoinLater) {
  pb::Hello hello0 = HelloWith({}), hello1 = HelloWith({OfWorkers(4, CheckpointAfter(10))});
  hello1.set_rank(1);
  std::vector<Offer> offers = {{"worker 0", &hello0}, {"worker 1", &hello1}};
  EXPECT_FALSE(ChooseBeginPoint(offers, std::nullopt).checkpoint.has_value());
  for (Offer& offer : offers) offer.may_join_later = true;
  EXPECT_EQ(ChooseBeginPoint(offers, std::nullopt).checkpoint->step(), 10u);
  hello1.mutable_checkpoints(0)->clear_workers();
  EXPECT_EQ(ChooseBeginPoint(offers, std::nullopt).checkpoint->step(), 10u);
}

TEST(Choice, NeedsNoCheckpointOfOtherShards) {
  const pb::Checkpoint plain = CheckpointAfter(10), other = OfShards(1, CheckpointAfter(20));
  EXPECT_EQ(Chosen({{plain, other}, {plain, other}}, {{}, {}})->step(), 20u);
  EXPECT_FALSE(Chosen({{plain}, {plain}}, {{}, {}}).has_value()) << "shards have their own";
  EXPECT_EQ(Chosen({{plain, other}, {plain}}, {{plain}, {plain}})->step(), 10u);
}

// Four workers, then two, and now four again: ranks 2 and 3 have what they wrote the first time.
TEST(Choice, DoesNotTakeWhatARankHasOfAnEarlierTime) {
  const pb::Checkpoint a20 = CheckpointAfter(20), a30 = CheckpointAfter(30),
                       b30 = OfWorkers(2, CheckpointAfter(30)),
                       b40 = OfWorkers(2, CheckpointAfter(40));
  const Checkpoints of_old_ranks = {a20, a30};
  EXPECT_EQ(Chosen({{b30, b40}, {b30, b40}, of_old_ranks, of_old_ranks})->workers(), 2u);
  EXPECT_EQ(Chosen({{b30, b40}, {b30, b40}, of_old_ranks, of_old_ranks})->step(), 40u);
  const auto same_step = Chosen({{a20, b30}, {a20, b30}, of_old_ranks, of_old_ranks});
  EXPECT_EQ(same_step->step(), 30u);
  EXPECT_EQ(same_step->workers(), 2u) << "a checkpoint of the same step is another one";
  EXPECT_FALSE(Chosen({{a20}, {a20}, of_old_ranks, of_old_ranks})->has_workers())
      << "the two workers wrote nothing";
}

TEST(Choice, IsRefusedWhereANewRankHasCheckpointsOfAnotherJob) {
  pb::Hello hello0 = HelloWith({OfWorkers(1, CheckpointAfter(10))}),
            hello1 = HelloWithUnfit(true, "of another job");
  hello1.set_rank(1);
  const std::vector<Offer> offers = {{"worker 0", &hello0}, {"worker 1", &hello1}};
  EXPECT_FALSE(ChooseBeginPoint(offers, std::nullopt).checkpoint.has_value());
  EXPECT_THAT(WhyNotBeginAnew(offers), HasSubstr("does not fit the checkpoints of worker 1"));
  hello1.mutable_unfit()->set_other_job(false);
  EXPECT_TRUE(ChooseBeginPoint(offers, std::nullopt).checkpoint.has_value())
      << "its checkpoints are damaged, and it needs none";
}

TEST(Choice, NeedsEqualWeightsOfThoseThatHaveTheCheckpoint) {
  pb::Checkpoint a = OfWorkers(2, CheckpointAfter(10)), b = a;
  a.set_weights_hash(1);
  b.set_weights_hash(2);
  EXPECT_TRUE(Chosen({{a}, {a}, {}}).has_value());
  EXPECT_FALSE(Chosen({{a}, {b}, {}}).has_value());
}

TEST(OtherSizeText, NamesWhatDiffers) {
  const pb::Checkpoint plain = CheckpointAfter(10);
  EXPECT_EQ(OtherSizeText(plain, 6, 2), "");
  EXPECT_EQ(OtherSizeText(OfWorkers(4, plain), 6, 2), "6 workers (4 before)");
  EXPECT_EQ(OtherSizeText(OfShards(2, plain), 6, 1), "1 server shard (2 before)");
  EXPECT_EQ(OtherSizeText(OfShards(1, OfWorkers(4, plain)), 1, 2),
            "1 worker (4 before) and 2 server shards (1 before)");
  EXPECT_EQ(OtherSizeText(OfShards(0, plain), 6, 2), "2 server shards (which divide it otherwise)");
}

// Shard 0 of a job with three workers. Worker r is peer 100 + r, with incarnation 10 + r.
class NewRank : public testing::Test {
 protected:
  static Shard0 MakeShard0(bool is_central = false) {
    ControlOptions options = TestOptions(1, 3, OnLoss::kFail);
    options.can_resume = true;
    options.begins_from_shards = is_central;
    options.shard_keeps_state = {is_central};
    if (is_central)
      options.find_saved_checkpoints = [] { return SavedCheckpoints{{Common()}, {}, 3}; };
    return Shard0(options);
  }
  static pb::Checkpoint Common() { return OfWorkers(2, CheckpointAfter(20)); }
  static ControlActions GreetAll(Shard0* shard0) {
    ControlActions out;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      pb::Hello hello = TestHello(rank, 10 + rank);
      if (rank < 2) *hello.add_checkpoints() = Common();
      if (rank == 0) hello.set_keeps_own(true);
      out = shard0->Deliver(100 + rank, HelloMessage(hello));
    }
    return out;
  }
  static pb::Welcome WelcomeOf(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, Body::kWelcome, SendsOf(actions)).head.welcome();
  }
  static Message WantOf(uint32_t rank) {
    Message want;
    want.head.mutable_state_want()->set_rank(rank);
    want.head.mutable_state_want()->set_incarnation(10 + rank);
    return want;
  }
};

TEST_F(NewRank, GetsTheStateOfAWorkerThatHasLoadedTheCheckpoint) {
  Shard0 shard0 = MakeShard0();
  const ControlActions out = GreetAll(&shard0);
  ASSERT_TRUE(shard0.coordinator().running());
  for (const Peer peer : {100, 101}) {
    EXPECT_EQ(WelcomeOf(peer, out).resume().step(), 20u);
    EXPECT_EQ(WelcomeOf(peer, out).resume().workers(), 2u);
    EXPECT_FALSE(WelcomeOf(peer, out).has_others_resume());
  }
  const pb::Welcome welcome = WelcomeOf(102, out);
  EXPECT_TRUE(welcome.needs_state());
  EXPECT_FALSE(welcome.has_resume() || welcome.has_begin());
  EXPECT_EQ(welcome.others_resume().step(), 20u);
  EXPECT_THAT(Shard0::LogOf(out),
              HasSubstr("the job goes on with 3 workers (2 before); dropped: what each worker had "
                        "of its own"));
  // Nobody has loaded it yet.
  EXPECT_TRUE(shard0.coordinator().running());
  const ControlActions early = shard0.Deliver(102, WantOf(2));
  EXPECT_TRUE(SendsOf(early).empty());
  EXPECT_EQ(Shard0::EndStatusOf(early).message(), "it goes on");
  shard0.Deliver(101, HeartbeatMessage(1, 11, 10));
  const ControlActions late = shard0.Deliver(102, WantOf(2));
  EXPECT_TRUE(FirstMessageTo(101, Body::kStateWant, SendsOf(late)).head.has_state_want());
  // Once it has the state, it is a worker as any other.
  shard0.Deliver(102, HeartbeatMessage(2, 12, 10));
  const Message hello = HelloMessage(HelloWithState(2, 12, 10, WelcomeOf(102, out).epoch()));
  EXPECT_FALSE(WelcomeOf(102, shard0.Deliver(102, hello)).has_others_resume());
}

TEST_F(NewRank, PullsTheWeightsWhereServersHoldThem) {
  Shard0 shard0 = MakeShard0(/*is_central=*/true);
  const ControlActions out = GreetAll(&shard0);
  ASSERT_TRUE(shard0.coordinator().running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 20u);
  const pb::Welcome welcome = WelcomeOf(102, out);
  EXPECT_FALSE(welcome.has_resume());
  EXPECT_EQ(welcome.begin(), 10u);
  EXPECT_EQ(welcome.others_resume().step(), 20u);
}

}  // namespace
}  // namespace tern::protocol::test
