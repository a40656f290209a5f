// Plays lanes, the state machines behind a server's sockets: RoundLane and ClockLane.
#include <functional>
#include <memory>
#include <utility>

#include "common/protocol/rounds/clock_lane.h"
#include "common/protocol/rounds/round_lane.h"
#include "tests/fuzz/protocol_words.h"

namespace tern::fuzz {
namespace {

class AnyWeights : public ClockCell {
 public:
  Status Push(uint32_t, uint64_t, const Bytes& payload) override {
    if (payload.size() > 8) return Status(Code::kMismatch, "too long");
    ++version_;
    return Ok();
  }
  Answer Pull(uint32_t, std::optional<uint64_t>) override { return {}; }
  Bytes Average() const override { return {}; }
  uint64_t version() const override { return version_; }

 private:
  uint64_t version_ = 0;
};

// Plays any kind of lane. `keeps_too_much` returns whether it keeps more
// than it may.
class LanePlay {
 public:
  LanePlay(Input* input, Lane* lane, bool has_rounds, std::function<bool()> keeps_too_much)
      : input_(*input),
        lane_(*lane),
        has_rounds_(has_rounds),
        keeps_too_much_(std::move(keeps_too_much)) {}
  void Play() {
    for (int i = 0; i < kMaxEvents && !input_.done(); ++i) PlayEvent();
  }

 private:
  void PlayEvent() {
    Sends out;
    switch (input_.Below(6)) {
      case 1: {
        const Lane::Counters before = lane_.counters();
        const uint64_t floor = lane_.floor();
        const bool was_open = lane_.open();
        const Message lie = LieOfStranger(&input_);
        if (!lie.head.has_hello()) lane_.OnMessage(kStranger, lie, &out);
        const Lane::Counters& after = lane_.counters();
        if (before.counted != after.counted || before.restored != after.restored ||
            before.closed != after.closed || before.skipped != after.skipped ||
            before.late != after.late || lane_.floor() != floor || lane_.open() != was_open)
          Fail("a stranger changed a lane");
        return Handle(out, kStranger);
      }
      case 2: {  // a member lies
        Message message = AnyMessage(&input_);
        if (message.head.has_hello()) return;
        lane_.OnMessage(100 + input_.Below(kWorkers), message, &out);
        return Handle(out, 0);
      }
      case 3: {
        const uint32_t rank = input_.Below(kWorkers);
        Message message = Contribution(rank);
        Disturb(&input_, &message);
        lane_.OnMessage(100 + rank, message, &out);
        return Handle(out, 0);
      }
      case 4: {
        Message message = HelloOf(input_.Below(kWorkers), 10 + input_.Below(4), true, 0);
        Disturb(&input_, &message);
        lane_.OnHello(100 + input_.Below(4), message.head.hello(), &out);
        return Handle(out, 0);
      }
      case 5: {
        pb::Members members;
        members.set_epoch(++epoch_);
        members.set_steps(kSteps);
        for (uint32_t rank = 0; rank < kWorkers; ++rank)
          members.add_incarnations(input_.Below(3) == 0 ? 0 : 10 + rank);
        lane_.OnMembers(members, &out);
        if (input_.Below(4) == 0) lane_.OnStop();
        return Handle(out, 0);
      }
      default:
        return PlayHonestStep();
    }
  }

  void PlayHonestStep() {
    Sends out;
    if (epoch_ == 0) {
      pb::Members members;
      members.set_epoch(++epoch_);
      members.set_steps(kSteps);
      for (uint32_t rank = 0; rank < kWorkers; ++rank) members.add_incarnations(10 + rank);
      lane_.OnMembers(members, &out);
    }
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      if (round_ % 8 == 0) {
        lane_.OnHello(100 + rank, HelloOf(rank, 10 + rank, round_ == 0, round_).head.hello(), &out);
      }
      lane_.OnApplied(rank, 10 + rank, round_);
    }
    for (uint32_t rank = 0; rank < kWorkers; ++rank)
      lane_.OnMessage(100 + rank, Contribution(rank), &out);
    ++round_;
    Handle(out, 0);
  }

  Message Contribution(uint32_t rank) const {
    Message message = ContributionOf(kPushes, rank, 10 + rank, round_ + 1);
    if (!has_rounds_) message.head.mutable_push()->mutable_at_clock()->set_clock(round_ + 1);
    return message;
  }

  void Handle(const Sends& sends, Peer only_to) const {
    ExpectGoodSends(sends, only_to);
    if (keeps_too_much_()) Fail("a lane keeps too much");
  }

  Input& input_;
  Lane& lane_;
  const bool has_rounds_;
  const std::function<bool()> keeps_too_much_;
  uint64_t epoch_ = 0, round_ = 0;
};

}  // namespace

void PlayRoundLane(Input* input) {
  RoundLane::Options options;
  options.workers = kWorkers;
  options.incarnation = 7;
  options.window = 1 + input->Below(2);
  options.quorum = input->Below(2);
  options.shrink = input->Below(2) == 1;
  options.decides_last_round = input->Below(2) == 1;
  CellSpec pushes = AnyCell(kPushes);
  pushes.closes_every_round = input->Below(4) == 3;
  pushes.is_for_members_only = input->Below(4) == 3;
  RoundLane lane(std::move(options), {std::move(pushes), AnyCell(kScalers)});
  LanePlay(input, &lane, true, [&] { return lane.LargestNumSlots() > lane.MaxSlots(); }).Play();
}

void PlayClockLane(Input* input) {
  ClockLane::Options options;
  options.workers = kWorkers;
  options.incarnation = 7;
  options.num_pushes = [](uint64_t steps) { return kWorkers * steps; };
  if (input->Below(2) == 1) options.max_clocks_ahead = input->Below(3);
  options.max_staleness = input->Below(3);
  std::vector<ClockCellSpec> cells;
  cells.push_back({kPushes, std::make_unique<AnyWeights>()});
  ClockLane lane(std::move(options), std::move(cells));
  LanePlay(input, &lane, false, [&] { return lane.num_waiting() > kWorkers; }).Play();
}

}  // namespace tern::fuzz
