#include "common/protocol/rounds/clock_lane.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Cell kFirst{Kind::kPush, 0, 0}, kSecond{Kind::kPush, 0, 1};

// Takes any word but "bad" as a push, and answers with all of them.
class Words : public ClockCell {
 public:
  struct Pushed {
    uint32_t rank;
    uint64_t base;
  };
  Status Push(uint32_t rank, uint64_t base, const Bytes& payload) override {
    if (View(payload) == "bad") return Status(Code::kMismatch, "not a word");
    pushed.push_back({rank, base});
    words += View(payload);
    return Ok();
  }
  uint64_t version() const override { return pushed.size(); }
  Answer Pull(uint32_t rank, std::optional<uint64_t> holds) override {
    pulled.push_back(rank);
    return {Text(words), !holds.has_value()};
  }
  Bytes Average() const override { return Text("average of " + words); }

  std::vector<Pushed> pushed;
  std::vector<uint32_t> pulled;
  std::string words;
};

// Three members, ranks 0 to 2, incarnations 10 to 12, peers 100 to 102.
class ClockLaneTest : public testing::Test {
 protected:
  void Make(ClockLane::Options options = {}) {
    options.workers = 3;
    options.incarnation = 7;
    if (!options.pushes) options.pushes = [](uint64_t steps) { return 3 * steps; };
    std::vector<ClockCellSpec> cells;
    for (const Cell& cell : {kFirst, kSecond}) {
      auto words = std::make_unique<Words>();
      (cell == kFirst ? first_ : second_) = words.get();
      cells.push_back({cell, std::move(words)});
    }
    lane_ = std::make_unique<ClockLane>(std::move(options), std::move(cells));
  }
  void Join(uint64_t steps = 100) {
    Tell(1, {10, 11, 12}, steps);
    for (uint32_t rank = 0; rank < 3; ++rank) Greet(rank, 10 + rank);
  }
  Sends Tell(uint64_t epoch, const std::vector<uint64_t>& incarnations, uint64_t steps = 100) {
    pb::Members members = MembersOf(epoch, incarnations);
    members.set_steps(steps);
    Sends out;
    lane_->OnMembers(members, &out);
    return out;
  }
  Sends Greet(uint32_t rank, uint64_t incarnation, bool fresh = true, uint64_t applied = 0) {
    pb::Hello hello = Veteran(rank, incarnation, applied, 1);
    hello.set_fresh(fresh);
    Sends out;
    lane_->OnHello(100 + rank, hello, &out);
    return out;
  }
  // Without a form.
  static Message From(uint32_t rank, std::optional<uint64_t> incarnation, const Cell& cell) {
    Message message;
    pb::Contribution* c = MutableContribution(cell.kind, &message.head);
    c->set_bucket(cell.bucket);
    c->set_chunk(cell.chunk);
    c->set_rank(rank);
    c->set_incarnation(incarnation.value_or(10 + rank));
    return message;
  }
  Sends Say(uint32_t rank, Message message, const std::string& payload) {
    message.payload = Text(payload);
    Sends out;
    lane_->OnMessage(100 + rank, message, &out);
    return out;
  }
  struct Ask {
    bool wants_weights = true;
    std::optional<uint64_t> holds = std::nullopt;
    std::optional<uint64_t> incarnation = std::nullopt;  // none: the rank's first
  };
  Sends Send(uint32_t rank, uint64_t clock, const Cell& cell, const std::string& payload, Ask ask) {
    Message message = From(rank, ask.incarnation, cell);
    pb::Contribution::AtClock* push = message.head.mutable_push()->mutable_at_clock();
    push->set_clock(clock);
    push->set_wants_weights(ask.wants_weights);
    if (ask.holds.has_value()) push->set_holds(*ask.holds);
    return Say(rank, message, payload);
  }
  Sends Push(uint32_t rank, uint64_t clock, const std::string& payload = "x") {
    return Send(rank, clock, kFirst, payload, {});
  }
  Sends Part(uint32_t rank, uint64_t clock, const Cell& cell = kFirst,
             const std::string& payload = "") {
    Message message = From(rank, std::nullopt, cell);
    message.head.mutable_push()->mutable_parting()->set_clock(clock);
    return Say(rank, message, payload);
  }
  Sends Pull(uint32_t rank, std::optional<uint64_t> incarnation = std::nullopt,
             uint64_t number = 1, const std::string& payload = "") {
    Message message = From(rank, incarnation, kFirst);
    message.head.mutable_push()->mutable_pull()->set_number(number);
    message.head.mutable_push()->mutable_pull()->mutable_weights();
    return Say(rank, message, payload);
  }
  Sends PullAverage(uint32_t rank) {
    Message message = From(rank, std::nullopt, kFirst);
    message.head.mutable_push()->mutable_pull()->mutable_average();
    return Say(rank, message, "");
  }
  // What a server before this one answered.
  Sends Hand(uint32_t rank, uint64_t clock, bool parted = false) {
    Message message;
    pb::Outcome* held = message.head.mutable_held_sum();
    if (parted) {
      held->mutable_parted()->set_clock(clock);
    } else {
      held->mutable_at_clock()->set_clock(clock);
    }
    Sends out;
    lane_->OnMessage(100 + rank, message, &out);
    return out;
  }
  static Message Sum(uint32_t rank, const Sends& out) {
    return First(100 + rank, pb::Envelope::kSum, out);
  }
  // What it says of a push.
  static pb::Outcome::AtClock Answer(uint32_t rank, const Sends& out) {
    return Sum(rank, out).head.sum().at_clock();
  }
  static pb::Outcome::Pulled Pulled(uint32_t rank, const Sends& out) {
    return Sum(rank, out).head.sum().pulled();
  }
  static pb::Refuse Refusal(uint32_t rank, const Sends& out) {
    return First(100 + rank, pb::Envelope::kRefuse, out).head.refuse();
  }

  std::unique_ptr<ClockLane> lane_;
  Words *first_ = nullptr, *second_ = nullptr;
};

TEST_F(ClockLaneTest, OpensWhenEveryMemberHasSaidHelloAndWelcomesWhoComesLater) {
  Make();
  Tell(1, {10, 11, 12});
  EXPECT_TRUE(Greet(0, 10).empty());
  EXPECT_TRUE(Push(0, 1).empty());  // not welcomed yet: it will come again
  EXPECT_TRUE(Greet(1, 11).empty());
  EXPECT_FALSE(lane_->open());
  EXPECT_EQ(Greet(2, 12).size(), 3u);
  EXPECT_TRUE(lane_->open());
  EXPECT_TRUE(first_->pushed.empty());
  Tell(2, {10, 11, 22});
  EXPECT_TRUE(lane_->open());
  const Sends out = Greet(2, 22);
  EXPECT_EQ(First(102, pb::Envelope::kWelcome, out).head.welcome().incarnation(), 7u);
  EXPECT_EQ(First(102, pb::Envelope::kWelcome, out).head.welcome().epoch(), 2u);
  EXPECT_EQ(Refusal(1, Greet(1, 99)).then(), pb::Refuse::retry);
}

TEST_F(ClockLaneTest, AnswersEveryPushAtOnceWithTheWeightsAfterIt) {
  ClockLane::Options options;
  options.learning_rate = [](uint64_t total) { return 1.0 / static_cast<double>(total); };
  Make(options);
  Join();
  EXPECT_EQ(View(Sum(0, Push(0, 1, "a")).payload), "a");
  const Message sum = Sum(1, Push(1, 1, "b"));
  EXPECT_EQ(View(sum.payload), "ab");
  const pb::Outcome::AtClock& answer = sum.head.sum().at_clock();
  EXPECT_EQ(answer.clock(), 1u);
  EXPECT_EQ(answer.weights().version(), 2u);
  EXPECT_EQ(answer.total(), 2u);
  EXPECT_EQ(answer.staleness(), 1u);
  EXPECT_EQ(sum.head.sum().learning_rate(), 0.5);
  EXPECT_FALSE(answer.stop());
  EXPECT_EQ(lane_->floor(), 0u);
}

TEST_F(ClockLaneTest, CountsAClockOnceAndAnswersItAgain) {
  Make();
  Join();
  Push(0, 1, "a");
  Push(1, 1, "b");
  const Message again = Sum(0, Push(0, 1, "a"));
  EXPECT_EQ(View(again.payload), "ab");
  EXPECT_EQ(again.head.sum().at_clock().clock(), 1u);
  EXPECT_EQ(again.head.sum().at_clock().weights().version(), 2u);
  EXPECT_EQ(first_->pushed.size(), 2u);
  EXPECT_EQ(lane_->counters().repeated, 1u);
  EXPECT_EQ(lane_->counters().counted, 2u);
  // Another cell counts for itself.
  EXPECT_EQ(View(Sum(0, Send(0, 1, kSecond, "c", {})).payload), "c");
}

TEST_F(ClockLaneTest, RefusesAnOlderClockAsStaleAndLetsClocksLeap) {
  Make();
  Join();
  Push(0, 5);
  const pb::Refuse refuse = Refusal(0, Push(0, 4));
  EXPECT_EQ(refuse.then(), pb::Refuse::ignore);
  EXPECT_THAT(refuse.sentence(), HasSubstr("rank 0 is at 5"));
  EXPECT_EQ(lane_->counters().stale, 1u);
  EXPECT_EQ(first_->pushed.size(), 1u);
}

TEST_F(ClockLaneTest, FencesIncarnationsThatAreNoMembers) {
  Make();
  Join();
  EXPECT_EQ(Refusal(0, Send(0, 1, kFirst, "x", {.incarnation = 99})).then(), pb::Refuse::ignore);
  Tell(2, {20, 11, 12});
  EXPECT_EQ(Refusal(0, Push(0, 1)).then(), pb::Refuse::ignore);
  EXPECT_EQ(Refusal(0, Pull(0)).then(), pb::Refuse::ignore);
  EXPECT_EQ(lane_->counters().fenced, 3u);
  EXPECT_TRUE(first_->pushed.empty());
}

TEST_F(ClockLaneTest, SendsAwayWhatIsNotInItsPlan) {
  Make();
  Join();
  EXPECT_EQ(Refusal(0, Send(0, 1, {Kind::kPush, 9, 0}, "x", {})).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, Push(0, 0)).then(), pb::Refuse::leave);
  const pb::Refuse bad = Refusal(1, Push(1, 1, "bad"));
  EXPECT_EQ(bad.then(), pb::Refuse::leave);
  EXPECT_THAT(bad.sentence(), HasSubstr("rank 1: not a word"));
  EXPECT_EQ(lane_->counters().bad, 3u);
  EXPECT_EQ(lane_->clocks(kFirst).total, 0u);
  EXPECT_EQ(lane_->clocks(kFirst).counted, (std::vector<uint64_t>{0, 0, 0}));
  Message other;
  other.head.mutable_members();
  Sends out;
  lane_->OnMessage(100, other, &out);
  EXPECT_EQ(Refusal(0, out).then(), pb::Refuse::ignore);
}

TEST_F(ClockLaneTest, TakesTheVersionThatAPushNamesForItsBase) {
  Make();
  Join();
  Push(0, 1);                                       // answered at version 1
  Push(1, 1);                                       // at 2
  Send(0, 2, kFirst, "x", {});                      // base: its last answer
  Send(1, 2, kFirst, "x", {.holds = 0});          // it says that it went on from the start
  Send(2, 1, kFirst, "x", {.holds = 1'000'000});  // of a server that is gone
  ASSERT_EQ(first_->pushed.size(), 5u);
  EXPECT_EQ(first_->pushed[2].base, 1u);
  EXPECT_EQ(first_->pushed[3].base, 0u);
  EXPECT_EQ(first_->pushed[4].base, 4u);
}

TEST_F(ClockLaneTest, CountsStalenessInAHistogramWhoseLastBinTakesTheRest) {
  Make();
  Join();
  for (uint64_t clock = 1; clock <= 40; ++clock) Push(0, clock);  // its own pushes make none stale
  EXPECT_EQ(lane_->counters().staleness.size(), kStalenessBins);
  EXPECT_EQ(lane_->counters().staleness[0], 40u);
  EXPECT_EQ(Answer(1, Push(1, 1)).staleness(), 40u);
  EXPECT_EQ(lane_->counters().staleness[32], 1u);
  EXPECT_EQ(Answer(1, Push(1, 2)).staleness(), 0u);
  EXPECT_EQ(Answer(0, Push(0, 41)).staleness(), 2u);
  EXPECT_EQ(lane_->counters().staleness[2], 1u);
}

TEST_F(ClockLaneTest, DropsWhatIsStalerThanAllowedByRankAndStillAnswersIt) {
  ClockLane::Options options;
  options.max_staleness = 2;
  Make(options);
  Join();
  for (uint64_t clock = 1; clock <= 3; ++clock) Push(0, clock);
  const Message late = Sum(1, Push(1, 1, "late"));
  EXPECT_TRUE(late.head.sum().at_clock().dropped());
  EXPECT_EQ(late.head.sum().at_clock().staleness(), 3u);
  EXPECT_EQ(late.head.sum().at_clock().total(), 3u);
  EXPECT_EQ(View(late.payload), "xxx");
  EXPECT_TRUE(Answer(1, Push(1, 1, "late")).dropped());  // repeated
  EXPECT_EQ(lane_->counters().dropped, 1u);
  EXPECT_THAT(lane_->dropped(), ElementsAre(0, 1, 0));
  EXPECT_EQ(View(Sum(1, Push(1, 2, "y")).payload), "xxxy");  // fresh again
  EXPECT_EQ(Answer(0, Push(0, 4)).staleness(), 1u);
}

TEST_F(ClockLaneTest, CountsAPushThatAsksForNoWeights) {
  Make();
  Join();
  const Message ack = Sum(0, Send(0, 1, kFirst, "a", {.wants_weights = false}));
  EXPECT_TRUE(ack.payload.empty());
  EXPECT_EQ(ack.head.sum().at_clock().clock(), 1u);
  EXPECT_FALSE(ack.head.sum().at_clock().has_weights());
  EXPECT_TRUE(first_->pulled.empty());
  EXPECT_EQ(first_->words, "a");
  // Its own push makes its next one stale: it has not seen it.
  EXPECT_EQ(Answer(0, Push(0, 2, "b")).staleness(), 1u);
}

TEST_F(ClockLaneTest, AnswersAPullWithTheNewestWeightsAndTheNewestCountedClock) {
  Make();
  Join();
  Push(0, 7, "a");
  Tell(2, {20, 11, 12});
  Greet(0, 20);
  const Message pulled = Sum(0, Pull(0, 20));
  EXPECT_EQ(View(pulled.payload), "a");
  EXPECT_EQ(pulled.head.sum().pulled().clock(), 7u);
  EXPECT_TRUE(pulled.head.sum().pulled().weights().whole());
  EXPECT_EQ(Pulled(1, Pull(1)).clock(), 0u);
  EXPECT_EQ(lane_->clocks(kFirst).total, 1u);
  // What it is given is what its next push is measured against.
  Push(2, 1);
  EXPECT_EQ(Answer(1, Push(1, 1)).staleness(), 1u);
}

TEST_F(ClockLaneTest, GivesTheMovingAverageWithoutCallingItTheWeightsOfTheRank) {
  Make();
  Join();
  Push(0, 1, "a");
  const Message average = Sum(1, PullAverage(1));
  EXPECT_EQ(View(average.payload), "average of a");
  EXPECT_TRUE(average.head.sum().pulled().has_average());
  EXPECT_EQ(Answer(1, Push(1, 1)).staleness(), 1u);
}

TEST_F(ClockLaneTest, AnswersAHeldOutcomeSoThatItsHolderDropsIt) {
  Make();
  Join();
  Message held;
  held.head.mutable_held_sum()->mutable_at_clock()->set_clock(3);
  held.payload = Text("x");
  Sends out;
  lane_->OnMessage(100, held, &out);
  EXPECT_EQ(First(100, pb::Envelope::kHeldSum, out).head.held_sum().at_clock().clock(), 3u);
}

TEST_F(ClockLaneTest, SaysStopToEveryoneOnceAllPushesOfTheJobHaveCome) {
  Make();
  Join(2);  // 6 pushes
  for (uint64_t clock = 1; clock <= 5; ++clock)
    EXPECT_FALSE(Answer(0, Push(0, clock)).stop());
  EXPECT_TRUE(Answer(1, Push(1, 1)).stop());
  EXPECT_TRUE(Answer(0, Push(0, 6)).stop());
  EXPECT_TRUE(Pulled(2, Pull(2)).stop());
  EXPECT_FALSE(Answer(0, Send(0, 1, kSecond, "x", {})).stop());
}

class Ssp : public ClockLaneTest {
 protected:
  void MakeBounded(uint64_t bound, uint64_t steps = 100) {
    ClockLane::Options options;
    options.bound = bound;
    Make(options);
    Join(steps);
  }
};

TEST_F(Ssp, WithholdsTheAnswerOfWhoIsTooFarAheadUntilTheSlowestHasCome) {
  MakeBounded(1);
  EXPECT_EQ(Push(0, 1, "a").size(), 1u);  // one ahead
  EXPECT_TRUE(Push(0, 2, "b").empty());
  EXPECT_EQ(first_->words, "ab");  // counted all the same
  EXPECT_TRUE(Push(0, 2, "b").empty());
  EXPECT_EQ(lane_->counters().repeated, 1u);
  EXPECT_EQ(lane_->waiting(), 1u);
  EXPECT_EQ(Push(1, 1, "c").size(), 1u);
  const Sends out = Push(2, 1, "d");
  const Message released = Sum(0, out);
  EXPECT_EQ(View(released.payload), "abcd");  // the newest
  EXPECT_EQ(released.head.sum().at_clock().clock(), 2u);
  EXPECT_EQ(released.head.sum().at_clock().staleness(), 0u);
  EXPECT_EQ(View(Sum(2, out).payload), "abcd");
  EXPECT_EQ(lane_->waiting(), 0u);
}

TEST_F(Ssp, WithBoundZeroAnswersAllTogether) {
  MakeBounded(0);
  EXPECT_TRUE(Push(0, 1, "a").empty());
  EXPECT_TRUE(Push(2, 1, "b").empty());
  const Sends out = Push(1, 1, "c");
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(View(Sum(rank, out).payload), "abc");
}

TEST_F(Ssp, AnswersWhereItWasAskedLast) {
  MakeBounded(0);
  Push(0, 1);
  Tell(2, {0, 11, 12});
  Tell(3, {10, 11, 12});  // by another life of shard 0, which never knew that it was given up
  Push(0, 2);
  Message again = From(0, std::nullopt, kFirst);
  again.head.mutable_push()->mutable_at_clock()->set_clock(2);
  again.head.mutable_push()->mutable_at_clock()->set_wants_weights(true);
  Sends out;
  lane_->OnMessage(200, again, &out);
  EXPECT_TRUE(out.empty());
  Push(1, 2);
  EXPECT_EQ(First(200, pb::Envelope::kSum, Push(2, 2)).head.sum().at_clock().clock(), 2u);
}

TEST_F(Ssp, IsNotHeldUpByWhoHasLeft) {
  MakeBounded(0);
  Push(0, 1);
  Push(1, 1);
  const Sends out = Tell(2, {10, 11, 0});
  EXPECT_EQ(To(100, out).size(), 1u);
  EXPECT_EQ(To(101, out).size(), 1u);
  EXPECT_EQ(Refusal(2, Push(2, 1)).then(), pb::Refuse::ignore);
  EXPECT_EQ(Refusal(2, Send(2, 1, kFirst, "x", {.incarnation = 0})).then(), pb::Refuse::ignore);
}

TEST_F(ClockLaneTest, IsDoneWhenAllMembersHavePartedUnstopped) {
  Make();
  Join(/*steps=*/2);
  Tell(2, {10, 11, 0}, /*steps=*/2);  // one is no member any more
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(lane_->done()) << rank;
    for (const Cell& cell : {kFirst, kSecond}) Part(rank, 1, cell);
  }
  EXPECT_TRUE(lane_->done());
  EXPECT_EQ(lane_->target(), 6u);
  lane_->OnStop();
  EXPECT_FALSE(lane_->done());
}

TEST_F(Ssp, IsNotHeldUpByWhoHasFinished) {
  MakeBounded(0);
  Push(0, 1);
  Push(1, 1);
  const Sends out = Part(2, 1);
  EXPECT_EQ(To(100, out).size(), 1u);
  EXPECT_EQ(To(101, out).size(), 1u);
  EXPECT_TRUE(Sum(2, out).payload.empty());
  EXPECT_EQ(lane_->counters().skipped, 1u);
  EXPECT_EQ(Part(2, 1).size(), 1u);  // acknowledged again
  EXPECT_EQ(lane_->counters().skipped, 1u);
  // Its next incarnation takes part until it says so, too.
  Tell(2, {10, 11, 22});
  Greet(2, 22);
  Push(0, 2);
  EXPECT_TRUE(Push(1, 2).empty());
}

TEST_F(Ssp, WaitsForWhoIsReplacedAndNotForWhatOneThatWasRemovedHasMissed) {
  MakeBounded(0);
  for (uint64_t clock = 1; clock <= 5; ++clock) {
    for (uint32_t rank = 0; rank < 3; ++rank) Push(rank, clock);
  }
  Tell(2, {10, 11, 22});
  Greet(2, 22);
  Push(0, 6);
  EXPECT_TRUE(Push(1, 6).empty());
  Tell(3, {10, 11, 0});
  for (uint64_t clock = 7; clock <= 20; ++clock) {
    Push(0, clock);
    EXPECT_EQ(Push(1, clock).size(), 2u);
  }
  Tell(4, {10, 11, 32});
  Greet(2, 32);
  EXPECT_EQ(Pulled(2, Pull(2, 32)).clock(), 20u);  // where it is to go on
  Push(0, 21);
  EXPECT_TRUE(Push(1, 21).empty());
  EXPECT_EQ(Send(2, 21, kFirst, "x", {.incarnation = 32}).size(), 3u);
}

TEST_F(Ssp, ReleasesAllWhenTheJobIsDoneOrToStop) {
  MakeBounded(0, 1);  // 3 pushes
  Push(0, 1);
  Push(0, 2);  // its own answer to 1 never came
  const Sends out = Push(1, 1);
  EXPECT_TRUE(Answer(0, out).stop());
  EXPECT_TRUE(Answer(1, out).stop());
  MakeBounded(0);
  Push(0, 1);
  Sends stop;
  lane_->Stop(&stop);
  EXPECT_TRUE(Answer(0, stop).stop());
  EXPECT_TRUE(Answer(1, Push(1, 1)).stop());
  MakeBounded(0);
  Push(0, 1);
  lane_->OnStop();
  EXPECT_TRUE(Answer(0, Push(1, 1)).stop());
}

TEST_F(Ssp, BelievesMembersWhatARestartedServerHasForgotten) {
  ClockLane::Options options;
  options.bound = 1;
  Make(options);
  CellClocks clocks;
  clocks.total = 30;
  clocks.counted = {10, 10, 10};
  clocks.answered = {28, 29, 30};
  for (Words* words : {first_, second_}) words->pushed.resize(30);
  lane_->Restore(kFirst, clocks);
  lane_->Restore(kSecond, clocks);
  Tell(1, {10, 11, 12});
  for (uint32_t rank = 0; rank < 3; ++rank) Greet(rank, 10 + rank, false);
  EXPECT_EQ(lane_->clocks(kFirst).total, 30u);
  // Ranks 1 and 2 were answered 13 by the server before, and wait for another one's answer now.
  EXPECT_TRUE(Push(0, 14).empty());
  EXPECT_EQ(Hand(1, 13).size(), 1u);
  EXPECT_EQ(Answer(0, Hand(2, 13)).clock(), 14u);
  EXPECT_TRUE(Push(0, 15).empty());
  EXPECT_EQ(lane_->lost_clocks(), 3u);
  EXPECT_EQ(Pulled(2, Pull(2)).clock(), 13u);  // where another process would go on
}

TEST_F(Ssp, HearsFromAMemberThatItHadParted) {
  MakeBounded(0);
  Push(0, 7);
  Push(1, 7);
  const Sends out = Hand(2, 6, true);
  EXPECT_EQ(Answer(0, out).clock(), 7u);
  EXPECT_EQ(Answer(1, out).clock(), 7u);
  EXPECT_EQ(lane_->lost_clocks(), 5u);
  EXPECT_TRUE(Hand(9, 1).empty());  // of a stranger
}

TEST_F(Ssp, KnowsThatWhoPushesAClockIsDoneWithTheOneBeforeInEveryCell) {
  MakeBounded(0);
  for (const Cell& cell : {kFirst, kSecond}) {
    for (uint32_t rank = 0; rank < 3; ++rank) Send(rank, 1, cell, "x", {});
  }
  for (uint32_t rank = 0; rank < 3; ++rank) Push(rank, 2);
  // Rank 2 dies before it pushes the second cell.
  Send(0, 2, kSecond, "x", {});
  EXPECT_TRUE(Send(1, 2, kSecond, "x", {}).empty());
  Tell(2, {10, 11, 22});
  Greet(2, 22);
  EXPECT_EQ(Pulled(2, Pull(2, 22)).clock(), 2u);
  // It has to wait for the others in the first cell, who wait for it in the second.
  const Sends out = Send(2, 3, kFirst, "x", {.incarnation = 22});
  EXPECT_EQ(To(100, out).size(), 1u);
  EXPECT_EQ(To(101, out).size(), 1u);
  EXPECT_TRUE(To(102, out).empty());
}

TEST_F(Ssp, WithoutItsSafeguardLetsAWorkerRunAhead) {
  ClockLane::Options options;
  options.bound = 0;
  options.safeguards.keep_bound = false;
  Make(options);
  Join();
  EXPECT_EQ(Push(0, 1).size(), 1u);
  EXPECT_EQ(Push(0, 2).size(), 1u);
}

TEST_F(ClockLaneTest, SendsAwayAProcessWhoseRankAnotherHasTakenFurther) {
  Make();
  Join();
  Push(0, 3);
  Tell(2, {20, 11, 12});
  Greet(0, 20);
  const pb::Refuse refuse = Refusal(0, Send(0, 2, kFirst, "x", {.incarnation = 20}));
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("another process had it meanwhile"));
  Send(0, 4, kFirst, "x", {.incarnation = 20});
  EXPECT_EQ(Refusal(0, Send(0, 2, kFirst, "x", {.incarnation = 20})).then(), pb::Refuse::ignore);
}

TEST_F(ClockLaneTest, RefusesClocksThatAreNoneAndPayloadsThatPushNothing) {
  Make();
  Join();
  for (uint64_t clock : {kMaxClock + 1, ~uint64_t{0}})
    EXPECT_EQ(Refusal(0, Push(0, clock)).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, Part(0, 1, kFirst, "x")).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, Pull(0, std::nullopt, 1, "x")).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(3, Send(3, 1, kFirst, "x", {.incarnation = 10})).then(), pb::Refuse::ignore);
  EXPECT_EQ(Refusal(0, Send(~0u - 50, 1, kFirst, "x", {.incarnation = 10})).sentence(), "");
  EXPECT_EQ(lane_->counters().bad, 4u);
  EXPECT_EQ(lane_->clocks(kFirst).total, 0u);
  EXPECT_EQ(Push(0, kMaxClock).size(), 1u);
  EXPECT_EQ(Hand(0, ~uint64_t{0}).size(), 1u);
  EXPECT_EQ(Pulled(0, Pull(0)).clock(), kMaxClock);
}

TEST_F(ClockLaneTest, SaysWhichPullItAnswers) {
  Make();
  Join();
  const pb::Outcome::Pulled pulled = Pulled(0, Pull(0, std::nullopt, 17));
  EXPECT_EQ(pulled.number(), 17u);
  EXPECT_EQ(pulled.clock(), 0u);
}

TEST_F(ClockLaneTest, RefusesAContributionWithoutAFormAndThoseOfRounds) {
  Make();
  Join();
  const pb::Refuse none = Refusal(0, Say(0, From(0, std::nullopt, kFirst), "x"));
  EXPECT_EQ(none.then(), pb::Refuse::leave);
  EXPECT_THAT(none.sentence(), HasSubstr("no form: it says neither"));
  Message in_round = From(0, std::nullopt, kFirst), skip = in_round, late = in_round;
  in_round.head.mutable_push()->mutable_in_round()->set_round(1);
  skip.head.mutable_push()->mutable_skip()->set_round(1);
  late.head.mutable_push()->mutable_late()->set_round(1);
  EXPECT_EQ(Refusal(0, Say(0, in_round, "x")).sentence(),
            "push of bucket 0, chunk 0, round 1 is of a round, and this lane has none");
  EXPECT_EQ(Refusal(0, Say(0, skip, "")).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, Say(0, late, "")).then(), pb::Refuse::leave);
  EXPECT_EQ(lane_->counters().bad, 4u);
  EXPECT_TRUE(first_->pushed.empty());
}

TEST_F(ClockLaneTest, RefusesAHeldOutcomeOfNoClock) {
  Make();
  Join();
  Message held;
  held.head.mutable_held_sum();
  EXPECT_THAT(Refusal(0, Say(0, held, "")).sentence(), HasSubstr("held outcome is of no clock"));
  held.head.mutable_held_sum()->mutable_of_round()->set_round(1);
  EXPECT_EQ(Refusal(0, Say(0, held, "")).then(), pb::Refuse::leave);
}

TEST_F(ClockLaneTest, KeepsAndRestoresWhatItHasCounted) {
  Make();
  Join();
  Push(0, 3);
  Push(1, 2);
  const CellClocks& clocks = lane_->clocks(kFirst);
  EXPECT_EQ(clocks.total, 2u);
  EXPECT_THAT(clocks.counted, ElementsAre(3, 2, 0));
  EXPECT_THAT(clocks.answered, ElementsAre(1, 2, 0));
  EXPECT_EQ(lane_->total(), 0u);  // of the cell that has least
  const CellClocks saved = clocks;
  Make();
  first_->pushed.resize(2);
  lane_->Restore(kFirst, saved);
  Join();
  EXPECT_THAT(Refusal(0, Push(0, 2)).sentence(), HasSubstr("rank 0 is at 3"));
  EXPECT_EQ(Answer(0, Push(0, 4)).total(), 3u);
}

}  // namespace
}  // namespace tern::protocol::test
