#include "common/protocol/coordinator.h"

#include <algorithm>
#include <utility>

namespace tern::protocol {

namespace {

using Presence = Coordinator::Worker::Presence;

RoundLane::Options LaneOptions(const ControlOptions& options) {
  RoundLane::Options lane = ControlLaneOptions(options);
  lane.welcomes = false;  // the coordinator does, with more to say
  return lane;
}

}  // namespace

Coordinator::Coordinator(ControlOptions options, std::vector<CellSpec> cells)
    : options_(std::move(options)),
      lane_(LaneOptions(options_), std::move(cells)),
      workers_(options_.workers),
      stragglers_(options_.workers),
      poll_(options_.shards) {}

void Coordinator::Start(Time now, ControlActions*) {
  started_at_ = now;
  for (uint32_t s = 1; s < options_.shards; ++s) followers_[s].heard_at = now;
}

void Coordinator::OnMessage(Peer from, const Message& message, Time now, ControlActions* out) {
  if (farewell_.started()) return farewell_.OnMessage(from, message, out);
  switch (message.head.body_case()) {
    case pb::Envelope::kHello:
      return OnHello(from, message.head.hello(), now, out);
    case pb::Envelope::kHeartbeat:
      return OnHeartbeat(from, message.head.heartbeat(), now, out);
    case pb::Envelope::kStateWant:
      return OnStateWant(from, message, now, out);
    case pb::Envelope::kStatePiece:
      return OnStatePiece(message, out);
    case pb::Envelope::kBye:
      return OnBye(from, message.head.bye(), now, out);
    case pb::Envelope::kPulse:
      return OnPulse(from, message.head.pulse(), now, out);
    case pb::Envelope::kGoBack:
      return OnSnapshots(from, message.head.go_back(), now, out);
    case pb::Envelope::kAbort:
      return OnShardAbort(from, message.head.abort(), now, out);
    case pb::Envelope::kEnd:
      return;  // the answer to what we said in a life before
    default:
      return OnRound(from, message, now, out);
  }
}

void Coordinator::OnShardHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  const auto found = followers_.find(hello.rank());
  if (found == followers_.end()) {
    return EmitSend(
        from,
        Refusal(Code::kMismatch, "there is no server shard " + std::to_string(hello.rank()),
                pb::Refuse::leave),
        out);
  }
  const uint64_t before = found->second.incarnation;
  const bool again = before != 0 && before != hello.incarnation();
  if (again) poll_.Forget(hello.rank());
  found->second = {from, hello.incarnation(), now, false, hello};
  Message message;
  message.head.mutable_welcome()->set_incarnation(options_.incarnation);
  EmitSend(from, std::move(message), out);
  if (!gathered_) return GatherIfComplete(now, out);
  if (again && HasSnapshots()) {
    return GoBack("server shard " + std::to_string(hello.rank()) + " was started again", now, out);
  }
  Message members;
  *members.head.mutable_members() = Members();
  EmitSend(from, std::move(members), out);
}

void Coordinator::OnShardAbort(Peer from, const pb::Abort& abort, Time now, ControlActions* out) {
  for (const auto& [shard, follower] : followers_) {
    if (follower.peer != from || abort.code() == 0) continue;
    return Abort(static_cast<Code>(abort.code()),
                 "server shard " + std::to_string(shard) + " cannot go on: " + abort.sentence(),
                 now, out);
  }
}

void Coordinator::OnFailure(const Status& status, Time now, ControlActions* out) {
  if (!farewell_.started())
    Abort(status.code(), "server shard 0 cannot go on: " + status.message(), now, out);
}

void Coordinator::OnPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out) {
  bool known = false;
  for (auto& [shard, follower] : followers_) {
    if (follower.peer != from) continue;
    known = true;
    follower.heard_at = now;
    follower.silent = false;
    if (pulse.stop() != 0 && stop_code_ == Code::kOk)
      EmitLog("server shard " + std::to_string(shard) + " was asked to stop", out);
  }
  if (known && pulse.stop() != 0) {
    const bool interrupted = pulse.stop() == static_cast<uint32_t>(Code::kInterrupted);
    OnStop(interrupted ? Code::kInterrupted : Code::kTerminated, now, out);
  }
  if (farewell_.started() || !known || !gathered_ || pulse.epoch() <= epoch_) return;
  // It follows a membership that ended with our life before, and would take ours for an older one.
  epoch_ = pulse.epoch() + 1;
  PublishMembers(out);
}

Coordinator::Worker* Coordinator::ByPeer(Peer peer) {
  for (Worker& worker : workers_) {
    if (worker.peer == peer && peer != 0) return &worker;
  }
  return nullptr;
}

void Coordinator::OnHeartbeat(Peer from, const pb::Heartbeat& beat, Time now, ControlActions* out) {
  if (beat.rank() >= workers_.size() || (workers_[beat.rank()].incarnation != beat.incarnation() &&
                                         options_.safeguards.fence_incarnations)) {
    return EmitSend(from, Refusal(Code::kNotAllowed, "not a member", pb::Refuse::retry), out);
  }
  Worker& worker = workers_[beat.rank()];
  if (worker.presence == Presence::kLost) return EmitSend(from, GivenUp(worker.incarnation), out);
  if (worker.suspect) EmitLog(Name(beat.rank()) + " is heard again", out);
  worker.suspect = false;
  worker.heard_at = now;
  // Not to a connection whose hello a later one has overtaken: pulses go elsewhere, so it has to
  // notice that it hears nothing.
  if (worker.peer == from) EmitEcho(from, beat, out);
  worker.counters = beat.counters();
  if (std::string slow = stragglers_.OnCounters(beat.rank(), worker.counters); !slow.empty())
    EmitLog(Name(beat.rank()) + slow, out);
  NameIfLate(beat.rank(), out);
  worker.waiting = beat.waiting();
  if (beat.waiting() || beat.progress() != worker.progress) worker.moved_at = now;
  worker.progress = beat.progress();
  if (!beat.has_applied()) return;
  worker.joining = worker.begins = false;
  worker.applied = std::max(worker.applied, beat.applied());
  lane_.OnApplied(beat.rank(), beat.incarnation(), beat.applied());
}

void Coordinator::OnRound(Peer from, const Message& message, Time now, ControlActions* out) {
  if (Worker* worker = ByPeer(from); worker != nullptr) {
    if (worker->presence == Presence::kLost)
      return EmitSend(from, GivenUp(worker->incarnation), out);
    worker->heard_at = now;
  }
  Sends sends;
  lane_.OnMessage(from, message, &sends);
  EmitSends(std::move(sends), out);
}

void Coordinator::OnStateWant(Peer from, const Message& message, Time now, ControlActions* out) {
  if (!gathered_) return;  // it will ask again
  const pb::StateWant& want = message.head.state_want();
  Worker* wants = ByPeer(from);
  if (wants == nullptr || wants->incarnation != want.incarnation() ||
      wants != &workers_[want.rank() % workers_.size()]) {
    return;
  }
  wants->heard_at = now;
  const Worker* donor = nullptr;  // the live worker with the highest applied round
  const auto worth = [](const Worker& worker) {
    return std::make_pair(!worker.suspect, worker.applied);
  };
  for (const Worker& worker : workers_) {
    const bool live = worker.presence == Presence::kPresent || worker.presence == Presence::kDone;
    if (&worker == wants || !live || worker.joining) continue;
    if (donor == nullptr || worth(worker) > worth(*donor)) donor = &worker;
  }
  if (donor == nullptr) return LoseState("", Code::kPeerLost, now, out);
  EmitSend(donor->peer, message, out);
}

void Coordinator::OnStatePiece(const Message& message, ControlActions* out) {
  const pb::StatePiece& piece = message.head.state_piece();
  if (piece.rank() >= workers_.size() || workers_[piece.rank()].incarnation != piece.incarnation())
    return;
  EmitSend(workers_[piece.rank()].peer, message, out);
}

void Coordinator::OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out) {
  const bool fenced =
      bye.rank() >= workers_.size() || (workers_[bye.rank()].incarnation != bye.incarnation() &&
                                        options_.safeguards.fence_incarnations);
  if (bye.code() != 0) {
    Message message;
    message.head.mutable_end()->set_code(bye.code());
    message.head.mutable_end()->set_sentence(bye.sentence());
    EmitSend(from, std::move(message), out);
    if (fenced) return;
    Worker& worker = workers_[bye.rank()];
    worker.counters = bye.counters();
    if (worker.presence == Presence::kPresent)
      Lose(bye.rank(), "it left: " + bye.sentence(), now, out);
    return;
  }
  if (fenced)
    return EmitSend(from, Refusal(Code::kNotAllowed, "not a member", pb::Refuse::retry), out);
  Worker& worker = workers_[bye.rank()];
  if (worker.presence == Presence::kLost) return EmitSend(from, GivenUp(worker.incarnation), out);
  worker.presence = Presence::kDone;
  worker.heard_at = now;
  worker.figures = bye.figures();
  worker.counters = bye.counters();
  EndIfAllDone(now, out);
}

Message Coordinator::GivenUp(uint64_t incarnation) const {
  if (CanGoBack() && !gathered_) {
    Message message;
    message.head.mutable_go_back()->set_incarnation(incarnation);
    return message;
  }
  return Refusal(Code::kNotAllowed, "given up while silent", pb::Refuse::rejoin);
}

std::string Coordinator::Name(uint32_t rank) const {
  const pb::Hello& hello = workers_[rank].hello;
  return "worker " + std::to_string(rank) + " (" + hello.host() + ", pid " +
         std::to_string(hello.pid()) + ")";
}

}  // namespace tern::protocol
