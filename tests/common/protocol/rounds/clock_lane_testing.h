// A ClockLane (a server socket without rounds) and its three members, for tests. A worker's clock
// is its own count of pushes.
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

inline constexpr Cell kFirstCell{Kind::kPush, 0, 0}, kSecondCell{Kind::kPush, 0, 1};

// A cell (the weights of one chunk) for tests: a push is any text but "bad", and the weights are
// the texts of all pushes, one after another.
class WordsCell : public ClockCell {
 public:
  struct PushRecord {
    uint32_t rank;
    uint64_t base_version;  // version of the weights that the push was computed from
  };
  Status Push(uint32_t rank, uint64_t base_version, const Bytes& payload) override {
    if (View(payload) == "bad") return Status(Code::kMismatch, "not a word");
    pushes.push_back({rank, base_version});
    pushed_text += View(payload);
    return Ok();
  }
  uint64_t version() const override { return pushes.size(); }
  Answer Pull(uint32_t rank, std::optional<uint64_t> held_version) override {
    ranks_that_pulled.push_back(rank);
    return {Text(pushed_text), !held_version.has_value()};
  }
  Bytes Average() const override { return Text("average of " + pushed_text); }

  std::vector<PushRecord> pushes;
  std::vector<uint32_t> ranks_that_pulled;  // in the order of their pulls
  std::string pushed_text;
};

// Three members: ranks 0 to 2, with incarnations (numbers of their processes) 10 to 12 and peers
// (connections) 100 to 102. Methods that return Sends return the messages with which the lane
// answers.
class ClockLaneTest : public testing::Test {
 protected:
  void MakeLane(ClockLane::Options options = {}) {
    options.workers = 3;
    options.incarnation = 7;
    if (!options.num_pushes) options.num_pushes = [](uint64_t steps) { return 3 * steps; };
    std::vector<ClockCellSpec> cells;
    for (const Cell& cell : {kFirstCell, kSecondCell}) {
      auto words_cell = std::make_unique<WordsCell>();
      (cell == kFirstCell ? first_cell_ : second_cell_) = words_cell.get();
      cells.push_back({cell, std::move(words_cell)});
    }
    lane_ = std::make_unique<ClockLane>(std::move(options), std::move(cells));
  }
  // Makes ranks 0 to 2 members of a job of `steps` steps. They say hello, which opens the lane.
  void Join(uint64_t steps = 100) {
    SetMembers(1, {10, 11, 12}, steps);
    for (uint32_t rank = 0; rank < 3; ++rank) SendHello(rank, 10 + rank);
  }
  Sends SetMembers(uint64_t epoch, const std::vector<uint64_t>& incarnations,
                   uint64_t steps = 100) {
    pb::Members members = MembersOf(epoch, incarnations);
    members.set_steps(steps);
    Sends out;
    lane_->OnMembers(members, &out);
    return out;
  }
  Sends SendHello(uint32_t rank, uint64_t incarnation, bool fresh = true, uint64_t applied = 0) {
    pb::Hello hello = HelloWithState(rank, incarnation, applied, 1);
    hello.set_fresh(fresh);
    Sends out;
    lane_->OnHello(100 + rank, hello, &out);
    return out;
  }
  // A contribution whose form (push at a clock, pull, ...) is not set yet.
  static Message FormlessContribution(uint32_t rank, std::optional<uint64_t> incarnation,
                                      const Cell& cell) {
    Message message;
    pb::Contribution* contribution = MutableContribution(cell.kind, &message.head);
    contribution->set_bucket(cell.bucket);
    contribution->set_chunk(cell.chunk);
    contribution->set_rank(rank);
    contribution->set_incarnation(incarnation.value_or(10 + rank));
    return message;
  }
  Sends SendMessage(uint32_t rank, Message message, const std::string& payload) {
    message.payload = Text(payload);
    Sends out;
    lane_->OnMessage(100 + rank, message, &out);
    return out;
  }
  struct PushOptions {
    bool wants_weights = true;
    // The version of the weights that the rank has; nullopt: the push names none.
    std::optional<uint64_t> held_version = std::nullopt;
    std::optional<uint64_t> incarnation = std::nullopt;  // nullopt: the rank's first one
  };
  Sends SendPush(uint32_t rank, uint64_t clock, const Cell& cell, const std::string& payload,
                 PushOptions options) {
    Message message = FormlessContribution(rank, options.incarnation, cell);
    pb::Contribution::AtClock* push = message.head.mutable_push()->mutable_at_clock();
    push->set_clock(clock);
    push->set_wants_weights(options.wants_weights);
    if (options.held_version.has_value()) push->set_holds(*options.held_version);
    return SendMessage(rank, message, payload);
  }
  Sends Push(uint32_t rank, uint64_t clock, const std::string& payload = "x") {
    return SendPush(rank, clock, kFirstCell, payload, {});
  }
  // Rank `rank` says that it has finished, at this clock.
  Sends SendParting(uint32_t rank, uint64_t clock, const Cell& cell = kFirstCell,
                    const std::string& payload = "") {
    Message message = FormlessContribution(rank, std::nullopt, cell);
    message.head.mutable_push()->mutable_parting()->set_clock(clock);
    return SendMessage(rank, message, payload);
  }
  Sends Pull(uint32_t rank, std::optional<uint64_t> incarnation = std::nullopt, uint64_t number = 1,
             const std::string& payload = "") {
    Message message = FormlessContribution(rank, incarnation, kFirstCell);
    message.head.mutable_push()->mutable_pull()->set_number(number);
    message.head.mutable_push()->mutable_pull()->mutable_weights();
    return SendMessage(rank, message, payload);
  }
  Sends PullAverage(uint32_t rank) {
    Message message = FormlessContribution(rank, std::nullopt, kFirstCell);
    message.head.mutable_push()->mutable_pull()->mutable_average();
    return SendMessage(rank, message, "");
  }
  // Rank `rank` shows that a previous server answered the rank's push of `clock` or, if `parted`,
  // accepted that the rank has finished.
  Sends SendHeldOutcome(uint32_t rank, uint64_t clock, bool parted = false) {
    Message message;
    pb::Outcome* outcome = message.head.mutable_held_sum();
    if (parted) {
      outcome->mutable_parted()->set_clock(clock);
    } else {
      outcome->mutable_at_clock()->set_clock(clock);
    }
    Sends out;
    lane_->OnMessage(100 + rank, message, &out);
    return out;
  }
  static Message OutcomeMessage(uint32_t rank, const Sends& out) {
    return FirstMessageTo(100 + rank, pb::Envelope::kSum, out);
  }
  // What the lane answered to a push of `rank`.
  static pb::Outcome::AtClock Answer(uint32_t rank, const Sends& out) {
    return OutcomeMessage(rank, out).head.sum().at_clock();
  }
  static pb::Outcome::Pulled PullAnswer(uint32_t rank, const Sends& out) {
    return OutcomeMessage(rank, out).head.sum().pulled();
  }
  static pb::Refuse Refusal(uint32_t rank, const Sends& out) {
    return FirstMessageTo(100 + rank, pb::Envelope::kRefuse, out).head.refuse();
  }

  std::unique_ptr<ClockLane> lane_;
  WordsCell *first_cell_ = nullptr, *second_cell_ = nullptr;
};

}  // namespace tern::protocol::test
