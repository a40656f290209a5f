// Tests of Exchange::Check(): each test plants one fault, and expects the invariant that it breaks.
// An Exchange is the worker's side of the rounds: its contributions without an answer, and the
// outcomes that it retains for a restarted server until the floor (the newest round that all
// workers have applied) reaches them.
#include <gmock/gmock.h>

#include "common/protocol/rounds/exchange.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol {

// Changes the private state of an exchange, to break its invariants.
class ExchangePeer {
 public:
  explicit ExchangePeer(Exchange* exchange) : exchange_(exchange) {}
  auto& entries() { return exchange_->queue_.entries_; }
  auto& unanswered() { return exchange_->queue_.unanswered_bytes_; }
  auto& held() { return exchange_->held_.held_; }
  auto& clocks() { return exchange_->held_.clocks_; }
  uint64_t& floor() { return exchange_->held_.floor_; }
  uint64_t& applied() { return exchange_->applied_; }
  uint64_t& late() { return exchange_->late_rounds_.num_rounds; }

 private:
  Exchange* exchange_;
};

namespace test {
namespace {

using testing::HasSubstr;

constexpr LaneRef kDataLane{0, 1};
constexpr Time kNow = milliseconds(1000);

// An exchange whose lane (server socket) is up. Round 1 of bucket 0 is answered. Round 2 of buckets
// 0 and 1 is not: the push of bucket 0 is sent, that of bucket 1 waits for credit (bytes that may
// be unanswered).
class ExchangeInvariants : public testing::Test {
 protected:
  ExchangeInvariants()
      : exchange_({0, 10, 4, milliseconds(300), true, nullptr}), peer_(&exchange_) {
    std::vector<Exchange::Outgoing> out;
    exchange_.OnLaneUp(kDataLane, 7, kNow, &out);
    Push(0, 1);
    pb::Outcome outcome;
    outcome.mutable_of_round()->set_round(1);
    outcome.mutable_of_round()->set_contributor_bits("\x01");
    exchange_.OnOutcome(kDataLane, Kind::kPush, outcome, Text("sum"), kNow, &out);
    Push(0, 2);
    Push(1, 2);
  }
  void SetUp() override { ASSERT_EQ(exchange_.Check().message(), ""); }
  void Push(uint32_t bucket, uint64_t round) {
    std::vector<Exchange::Outgoing> out;
    exchange_.Contribute({Kind::kPush, bucket, 0}, kDataLane, InRound{round, Text("abc")}, kNow,
                         &out);
  }
  SendQueue::Entry& entry(uint32_t bucket) {
    return peer_.entries().at({2, {Kind::kPush, bucket, 0}});
  }
  HeldOutcomes::HeldOutcome& held() { return peer_.held().begin()->second; }
  std::string BrokenInvariant() const {
    const Status check_status = exchange_.Check();
    EXPECT_EQ(check_status.code(), Code::kInternal);
    return check_status.message();
  }

  Exchange exchange_;
  ExchangePeer peer_;
};

TEST_F(ExchangeInvariants, CreditThatDiffersFromTheSentBytes) {
  peer_.unanswered()[kDataLane] = 5;
  EXPECT_EQ(BrokenInvariant(), "lane 0.1: has 3 bytes unanswered, and counts 5");
}

TEST_F(ExchangeInvariants, AFirstPushThatIsNotSent) {
  entry(0).state = SendQueue::State::kWaiting;
  peer_.unanswered()[kDataLane] = 0;
  EXPECT_THAT(BrokenInvariant(),
              HasSubstr("bucket 0, chunk 0, exchange 2: the first of its lane, and not sent,"
                        " with 0 bytes unanswered"));
  exchange_.OnLaneDown(kDataLane);
  EXPECT_EQ(exchange_.Check().message(), "");
}

TEST_F(ExchangeInvariants, APullNumberOfAPush) {
  entry(1).pull_number = 4;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("asks for 0 pulls, and its number is 4"));
}

TEST_F(ExchangeInvariants, AContributionToARoundThatIsApplied) {
  peer_.applied() = 2;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("exchange 2: not answered, and applied is 2"));
}

TEST_F(ExchangeInvariants, AnOutcomeThatTheFloorHasReached) {
  peer_.floor() = 1;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("exchange 1: retained, and the floor is 1"));
}

TEST_F(ExchangeInvariants, AnOutcomeUnderAnotherName) {
  held().outcome.mutable_of_round()->set_round(3);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("exchange 1: retains an outcome of exchange 3"));
  held().outcome.mutable_of_round()->set_round(1);
  held().outcome.set_chunk(2);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("retains an outcome of bucket 0, chunk 2"));
}

TEST_F(ExchangeInvariants, ANewestClockThatIsNotRetained) {
  peer_.clocks()[{Kind::kPush, 0, 0}] = 5;
  EXPECT_THAT(BrokenInvariant(),
              HasSubstr("clock 5: the newest clock is not retained, and the floor is 0"));
}

TEST_F(ExchangeInvariants, MoreLateRoundsThanHaveCome) {
  peer_.late() = 3;
  EXPECT_EQ(BrokenInvariant(), "exchange: 3 rounds were late, and the newest is 0");
}

TEST_F(ExchangeInvariants, AContributionToACellAndRoundThatHasOne) {
  EXPECT_EQ(InvariantBrokenBy([this] { Push(1, 2); }),
            "push of bucket 1, chunk 0, exchange 2: contributed twice");
}

TEST(Exchange, RequiresThatAllOfARoundWasDeliveredBeforeItIsApplied) {
  Exchange exchange({0, 10, 4, milliseconds(300), false, nullptr});
  std::vector<Exchange::Outgoing> out;
  exchange.Contribute({Kind::kPush, 0, 0}, kDataLane, InRound{1, Text("abc")}, kNow, &out);
  EXPECT_EQ(InvariantBrokenBy([&] { exchange.SetApplied(1); }),
            "exchange: applied 1, and not all answers of these rounds were delivered");
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol
