// A lane without rounds and its three members, for tests of it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/protocol/rounds/clock_lane.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {

inline constexpr Cell kFirst{Kind::kPush, 0, 0}, kSecond{Kind::kPush, 0, 1};

// A cell (chunk that is summed) whose pushes are any words but "bad". Answers with all words so
// far.
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
  // A contribution whose form (push at a clock, pull, ...) is not set yet.
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
    std::optional<uint64_t> incarnation = std::nullopt;  // nullopt: the rank's first one
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
  Sends Pull(uint32_t rank, std::optional<uint64_t> incarnation = std::nullopt, uint64_t number = 1,
             const std::string& payload = "") {
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
  // Rank `rank` shows that a previous server answered its push of `clock`, or took its leave.
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
  // What the lane answered to a push of `rank`.
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

}  // namespace tern::protocol::test
