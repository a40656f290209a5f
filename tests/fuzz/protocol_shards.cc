// Plays the control planes of servers: shard 0's Coordinator, and the Follower of another shard.
#include <algorithm>
#include <string>

#include "common/protocol/members/follower.h"
#include "common/protocol/members/shard0/coordinator.h"
#include "tests/fuzz/protocol_words.h"

namespace tern::fuzz {
namespace {

ControlOptions OptionsOfShard(uint32_t shard, Input* input) {
  ControlOptions options;
  options.shard = shard;
  options.shards = 2;
  options.workers = kWorkers;
  options.incarnation = 7;
  options.data_ports = {4000};
  options.expected_hello = HelloOfJob();
  options.timings = FastTimings();
  options.elasticity.on_loss = static_cast<OnLoss>(input->Below(3));
  options.window = 1 + input->Below(2);
  const uint32_t kind = input->Below(4);
  options.workers_hold_state = kind != 1;
  options.begins_from_shards = kind == 2;
  options.can_resume = kind == 3;
  return options;
}

class Shard0 {
 public:
  explicit Shard0(Input* input)
      : input_(*input), coordinator_(OptionsOfShard(0, input), {AnyCell(kScalers)}) {
    ControlActions out;
    coordinator_.Start(now_, &out);
  }
  void Play() {
    for (int i = 0; i < kMaxEvents && !input_.done() && !has_ended_; ++i) PlayEvent();
  }

 private:
  struct Worker {
    uint64_t incarnation = 0, applied = 0;
    Peer peer = 0;
    bool is_member = false, has_left = false;
  };

  void PlayEvent() {
    switch (input_.Below(8)) {
      case 1:
        return PlayStranger();
      case 2: {
        Message message = AnyMessage(&input_);
        return Deliver(SomePeer(), message);
      }
      case 3: {  // a member lies
        const uint32_t rank = input_.Below(kWorkers);
        Message message = input_.Below(2) == 0 ? Heartbeat(rank) : Hello(rank);
        Disturb(&input_, &message);
        return Deliver(workers_[rank].peer, message);
      }
      case 4: {  // a new process of a rank
        const uint32_t rank = input_.Below(kWorkers);
        workers_[rank] = {NewIncarnation(), 0, NewPeer(), false, false};
        return Deliver(workers_[rank].peer, Hello(rank));
      }
      case 5: {
        ControlActions out;
        coordinator_.OnUnreachable(SomePeer(), now_);
        coordinator_.OnStop(input_.Below(2) == 0 ? Code::kTerminated : Code::kInterrupted, now_,
                            &out);
        return Handle(out, 0);
      }
      case 6:
        now_ += milliseconds(100) * input_.Byte();
        return Tick();
      case 7: {  // the other shard
        Message message = input_.Below(2) == 0 ? ShardHello() : AnyMessage(&input_);
        if (input_.Below(2) == 1) Disturb(&input_, &message);
        return Deliver(200, message);
      }
      default:
        return PlayHonestStep();
    }
  }

  void PlayHonestStep() {
    now_ += milliseconds(100);
    Message pulse;
    pulse.head.mutable_pulse()->set_incarnation(70);
    Deliver(200, shard_is_here_ ? pulse : ShardHello());
    shard_is_here_ = true;
    for (uint32_t rank = 0; rank < kWorkers && !has_ended_; ++rank) {
      Worker& worker = workers_[rank];
      if (worker.has_left) continue;
      if (worker.incarnation == 0) worker = {10 + rank, 0, 100 + rank, false, false};
      if (!worker.is_member) {
        Deliver(worker.peer, Hello(rank));
        continue;
      }
      Deliver(worker.peer, Heartbeat(rank));
      Deliver(worker.peer, ContributionOf(kScalers, rank, worker.incarnation, worker.applied + 1));
      if (worker.applied == kSteps) Deliver(worker.peer, Bye(rank));
    }
    Tick();
  }

  void PlayStranger() {
    const std::string state_before = DescribeState();
    ControlActions out;
    coordinator_.OnMessage(kStranger, LieOfStranger(&input_), now_, &out);
    ExpectGoodActions(out, kStranger);
    if (DescribeState() != state_before) Fail("a stranger changed the state of shard 0");
  }

  void Deliver(Peer from, const Message& message) {
    if (has_ended_ || from == 0) return;
    ControlActions out;
    coordinator_.OnMessage(from, message, now_, &out);
    Handle(out, 0);
  }
  void Tick() {
    if (has_ended_) return;
    ControlActions out;
    coordinator_.OnTimer(now_, &out);
    Handle(out, 0);
  }
  void Handle(const ControlActions& actions, Peer only_to) {
    ExpectGoodActions(actions, only_to);
    for (const ControlAction& action : actions) {
      if (action.type == ControlAction::Type::kEnded) ExpectEnd(action.status);
      if (action.type != ControlAction::Type::kSend) continue;
      for (uint32_t rank = 0; rank < kWorkers; ++rank) {
        if (workers_[rank].peer == action.send.to) OnAnswer(&workers_[rank], action.send.message);
      }
    }
    const RoundLane& lane = coordinator_.lane();
    if (lane.LargestNumSlots() > lane.MaxSlots()) Fail("too many rounds");
  }
  // The job ends well only if all workers have said that they are done, with all steps.
  void ExpectEnd(const Status& status) {
    has_ended_ = true;
    if (!status.ok()) return;
    size_t num_done = 0;
    for (const Coordinator::Worker& worker : coordinator_.workers()) {
      if (worker.presence != Coordinator::Worker::Presence::kDone) continue;
      ++num_done;
      if (worker.hello.rank() >= kWorkers) Fail("a worker without a rank is done");
    }
    if (num_done == 0) Fail("the job ended well, and no worker was done");
  }
  void OnAnswer(Worker* worker, const Message& message) {
    const pb::Envelope& head = message.head;
    if (head.has_welcome()) worker->is_member = true;
    if (head.has_scaled() && head.scaled().has_of_round())
      worker->applied =
          std::max(worker->applied, std::min(kSteps, head.scaled().of_round().round()));
    if (head.has_refuse()) {
      if (head.refuse().then() == pb::Refuse::retry) worker->is_member = false;
      if (head.refuse().then() == pb::Refuse::leave) worker->has_left = true;
      if (head.refuse().then() == pb::Refuse::rejoin) *worker = {NewIncarnation(), 0, NewPeer()};
    }
    if (head.has_go_back()) *worker = {NewIncarnation(), 0, NewPeer()};
    if (head.has_abort() || head.has_end()) worker->has_left = true;
  }

  Message Hello(uint32_t rank) const {
    const Worker& worker = workers_[rank];
    return HelloOf(rank, worker.incarnation, worker.applied == 0, worker.applied);
  }
  Message Heartbeat(uint32_t rank) const {
    Message message;
    pb::Heartbeat* beat = message.head.mutable_heartbeat();
    beat->set_rank(rank);
    beat->set_incarnation(workers_[rank].incarnation);
    beat->set_applied(workers_[rank].applied);
    beat->set_waiting(true);
    return message;
  }
  Message Bye(uint32_t rank) const {
    Message message;
    message.head.mutable_bye()->set_rank(rank);
    message.head.mutable_bye()->set_incarnation(workers_[rank].incarnation);
    message.head.mutable_bye()->set_steps(kSteps);
    return message;
  }
  static Message ShardHello() {
    Message message = HelloOf(1, 70, false, 0);
    message.head.mutable_hello()->set_role(pb::Hello::shard);
    return message;
  }
  Peer SomePeer() {
    const uint32_t which = input_.Below(kWorkers + 1);
    return which < kWorkers ? workers_[which].peer : 200;
  }
  uint64_t NewIncarnation() { return 1000 + ++num_processes_; }
  Peer NewPeer() { return 1000 + num_processes_; }

  std::string DescribeState() const {
    std::string text = std::to_string(coordinator_.running()) +
                       std::to_string(coordinator_.ending()) + " " +
                       std::to_string(coordinator_.job().roster.steps) + " " +
                       std::to_string(coordinator_.job().beginning) + " " +
                       std::to_string(coordinator_.lane().floor()) + " " +
                       std::to_string(coordinator_.lane().counters().counted);
    for (const Coordinator::Worker& worker : coordinator_.workers()) {
      for (const uint64_t field : {static_cast<uint64_t>(worker.presence), uint64_t{worker.suspect},
                                   uint64_t{worker.joining}, worker.incarnation, worker.epoch,
                                   worker.peer, worker.progress, worker.applied, worker.steps_done,
                                   static_cast<uint64_t>(worker.heard_at.count()),
                                   static_cast<uint64_t>(worker.closed_at.count())}) {
        text += " " + std::to_string(field);
      }
      text += worker.hello.SerializeAsString() + worker.counters.SerializeAsString() +
              worker.figures.SerializeAsString();
    }
    return text;
  }

  Input& input_;
  Coordinator coordinator_;
  Time now_ = milliseconds(1000);
  Worker workers_[kWorkers];
  uint64_t num_processes_ = 0;
  bool has_ended_ = false, shard_is_here_ = false;
};

class OtherShard {
 public:
  explicit OtherShard(Input* input)
      : input_(*input), follower_(OptionsOfShard(1, input), {AnyCell(kScalers)}) {
    ControlActions out;
    follower_.Start(now_, &out);
    Handle(out, 0);
  }
  void Play() {
    for (int i = 0; i < kMaxEvents && !input_.done() && !has_ended_; ++i) PlayEvent();
  }

 private:
  void PlayEvent() {
    ControlActions out;
    switch (input_.Below(7)) {
      case 1: {
        const uint64_t counted = follower_.lane().counters().counted;
        const uint64_t floor = follower_.lane().floor();
        const bool was_open = follower_.lane().open();
        follower_.OnMessage(kStranger, LieOfStranger(&input_), now_, &out);
        if (follower_.lane().counters().counted != counted || follower_.lane().floor() != floor ||
            follower_.lane().open() != was_open)
          Fail("a stranger changed the lane of a shard");
        return Handle(out, kStranger);
      }
      case 2:
        follower_.OnMessageFromShard0(AnyMessage(&input_), now_, &out);
        return Handle(out, 0);
      case 3: {
        Message message = HelloOf(input_.Below(kWorkers), 10 + input_.Below(4), true, 0);
        Disturb(&input_, &message);
        follower_.OnMessage(100 + input_.Below(4), message, now_, &out);
        return Handle(out, 0);
      }
      case 4:
        follower_.OnMessage(100 + input_.Below(4), AnyMessage(&input_), now_, &out);
        return Handle(out, 0);
      case 5:
        if (input_.Below(4) == 0) follower_.OnStop(Code::kTerminated, now_, &out);
        if (input_.Below(4) == 0) follower_.OnShard0Disconnected();
        return Handle(out, 0);
      case 6:
        now_ += milliseconds(100) * input_.Byte();
        follower_.OnTimer(now_, &out);
        return Handle(out, 0);
      default:
        return PlayHonestStep();
    }
  }

  void PlayHonestStep() {
    now_ += milliseconds(100);
    ControlActions out;
    Message message;
    message.head.mutable_welcome()->set_incarnation(7);
    follower_.OnMessageFromShard0(message, now_, &out);
    message.head.mutable_members()->set_epoch(1);
    for (uint32_t rank = 0; rank < kWorkers; ++rank)
      message.head.mutable_members()->add_incarnations(10 + rank);
    follower_.OnMessageFromShard0(message, now_, &out);
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      if (round_ == 0)
        follower_.OnMessage(100 + rank, HelloOf(rank, 10 + rank, true, 0), now_, &out);
      follower_.OnMessage(100 + rank, ContributionOf(kScalers, rank, 10 + rank, round_ + 1), now_,
                          &out);
    }
    ++round_;
    follower_.OnTimer(now_, &out);
    Handle(out, 0);
  }

  void Handle(const ControlActions& actions, Peer only_to) {
    ExpectGoodActions(actions, only_to);
    for (const ControlAction& action : actions)
      has_ended_ |= action.type == ControlAction::Type::kEnded;
    if (follower_.lane().LargestNumSlots() > follower_.lane().MaxSlots()) Fail("too many rounds");
  }

  Input& input_;
  Follower follower_;
  Time now_ = milliseconds(1000);
  uint64_t round_ = 0;
  bool has_ended_ = false;
};

}  // namespace

void PlayShard0(Input* input) { Shard0(input).Play(); }
void PlayOtherShard(Input* input) { OtherShard(input).Play(); }

}  // namespace tern::fuzz
