#include "common/protocol/members/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/invariants.h"

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
      roster_(options_.workers, options_.safeguards.fence_incarnations),
      stragglers_(options_.workers) {}

Status Coordinator::Check() const {
  TERN_RETURN_IF_ERROR(roster_.Check());
  TERN_HOLDS(!gathered_ || !(going_back_ || called_ || asking_),
             "coordinator: the job runs, and is going back");
  TERN_HOLDS(
      going_back_ || !(called_ || asking_),
      "coordinator: workers were called anew or shards asked, and the job is not going back");
  TERN_HOLDS(beginning_ != 0 || !begin_.from.has_value(),
             "coordinator: the job began from a checkpoint, and has no beginning");
  if (!gathered_) return Ok();
  for (const Worker& worker : roster_.workers) {
    TERN_HOLDS(!worker.live() || worker.epoch <= roster_.epoch,
               "coordinator: ", worker.hello.rank(), " was admitted in epoch ", worker.epoch,
               ", the job's is ", roster_.epoch);
  }
  return Ok();
}

void Coordinator::Start(Time now, ControlActions*) {
  started_at_ = now;
  for (uint32_t s = 1; s < options_.shards; ++s) roster_.shards[s].heard_at = now;
}

void Coordinator::OnMessage(Peer from, const Message& message, Time now, ControlActions* out) {
  const CheckedAfter checked(*this);
  if (farewell_.started()) return farewell_.OnMessage(from, message, out);
  switch (message.head.body_case()) {
    case pb::Envelope::kHello:
      return OnHello(from, message.head.hello(), now, out);
    case pb::Envelope::kHeartbeat:
      return OnHeartbeat(from, message.head.heartbeat(), now, out);
    case pb::Envelope::kStateWant:
      return OnStateWant(from, message, now, out);
    case pb::Envelope::kStatePiece:
      return OnStatePiece(from, message, out);
    case pb::Envelope::kBye:
      return OnBye(from, message.head.bye(), now, out);
    case pb::Envelope::kPulse:
      return OnPulse(from, message.head.pulse(), now, out);
    case pb::Envelope::kAbort:
      return OnShardAbort(from, message.head.abort(), now, out);
    case pb::Envelope::kEnd:
      return;  // the answer to what we said in a life before
    default:
      return OnRound(from, message, now, out);
  }
}

void Coordinator::OnShardHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  const auto found = roster_.shards.find(hello.rank());
  if (found == roster_.shards.end()) {
    return EmitSend(
        from,
        Refusal(Code::kMismatch, "there is no server shard " + std::to_string(hello.rank()),
                pb::Refuse::leave),
        out);
  }
  if (!MayTakePlace(&found->second, from, hello, now, out)) return;
  const uint64_t before = found->second.incarnation;
  const bool again = before != 0 && before != hello.incarnation();
  found->second = {from, hello.incarnation(), now, false, hello, 0, Time(0)};
  Message message;
  message.head.mutable_welcome()->set_incarnation(options_.incarnation);
  EmitSend(from, std::move(message), out);
  if (!gathered_) return GatherIfComplete(now, out);
  if (again && options_.begins_from_shards) {
    return GoBack("server shard " + std::to_string(hello.rank()) + " was started again", now, out);
  }
  Message members;
  *members.head.mutable_members() = Members();
  EmitSend(from, std::move(members), out);
}

void Coordinator::OnShardAbort(Peer from, const pb::Abort& abort, Time now, ControlActions* out) {
  for (const auto& [shard, follower] : roster_.shards) {
    if (follower.peer != from) continue;
    const Status error = ErrorFromPeer(abort.code(), abort.sentence());
    return Abort(error.code(),
                 "server shard " + std::to_string(shard) + " cannot go on: " + error.message(), now,
                 out);
  }
}

void Coordinator::OnFailure(const Status& status, Time now, ControlActions* out) {
  const CheckedAfter checked(*this);
  if (!farewell_.started())
    Abort(status.code(), "server shard 0 cannot go on: " + status.message(), now, out);
}

// A shard says something every heartbeat: one that was just heard has not died.
bool Coordinator::MayTakePlace(Roster::Shard* place, Peer from, const pb::Hello& hello, Time now,
                               ControlActions* out) {
  const bool free = place->incarnation == 0 || place->incarnation == hello.incarnation() ||
                    now - place->heard_at > 2 * options_.timings.heartbeat;
  if (free) return true;
  if (place->rival != hello.incarnation()) {
    place->rival = hello.incarnation();
    place->rival_since = now;
  }
  const bool alive = place->heard_at > place->rival_since + options_.timings.suspect_after;
  EmitSend(from,
           Refusal(Code::kNotAllowed,
                   "the place of server shard " + std::to_string(hello.rank()) +
                       " is taken by another process" + (alive ? ", which is alive" : ""),
                   alive ? pb::Refuse::leave : pb::Refuse::retry),
           out);
  return false;
}

void Coordinator::OnPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out) {
  bool known = false;
  for (auto& [shard, follower] : roster_.shards) {
    if (follower.peer != from) continue;
    known = true;
    follower.heard_at = now;
    follower.silent = false;
    if (pulse.stop() != 0)
      OnStopFrom("server shard " + std::to_string(shard), pulse.stop(), now, out);
  }
  if (farewell_.started() || !known || !gathered_ || pulse.epoch() <= roster_.epoch) return;
  // It follows a membership that ended with our life before, and would take ours for an older one.
  roster_.epoch = pulse.epoch() + 1;
  PublishMembers(out);
}

void Coordinator::Hear(Worker* worker, Time now) {
  if (now - worker->heard_at > options_.timings.suspect_after && HearsNobody(now)) {
    Excuse(now);
    for (Worker& one : roster_.workers) one.awaited = false;
  }
  worker->heard_at = now;
}

void Coordinator::OnHeartbeat(Peer from, const pb::Heartbeat& beat, Time now, ControlActions* out) {
  Worker* const member = roster_.MemberOf(from, beat.rank(), beat.incarnation());
  if (member == nullptr)
    return EmitSend(from, Refusal(Code::kNotAllowed, "not a member", pb::Refuse::retry), out);
  Worker& worker = *member;
  if (worker.presence == Presence::kLost) return EmitSend(from, GivenUp(worker.incarnation), out);
  if (worker.suspect) EmitLog(roster_.Name(beat.rank()) + " is heard again", out);
  worker.suspect = false;
  Hear(&worker, now);
  EmitEcho(from, beat, out);
  worker.counters = beat.counters();
  if (std::string slow = stragglers_.OnCounters(beat.rank(), worker.counters); !slow.empty())
    EmitLog(roster_.Name(beat.rank()) + slow, out);
  NameIfLate(beat.rank(), out);
  worker.waiting = beat.waiting();
  if (beat.waiting() || beat.progress() != worker.progress) worker.moved_at = now;
  worker.progress = beat.progress();
  if (beat.has_applied()) {
    worker.joining = worker.begins = false;
    worker.applied = std::max(worker.applied, beat.applied());
    lane_.OnApplied(beat.rank(), beat.incarnation(), beat.applied());
  }
  if (beat.stop() != 0) OnStopFrom(roster_.Name(beat.rank()), beat.stop(), now, out);
}

void Coordinator::OnStopFrom(const std::string& who, uint32_t code, Time now, ControlActions* out) {
  if (farewell_.started()) return;
  if (stop_code_ == Code::kOk) EmitLog(who + " was asked to stop", out);
  const bool interrupted = code == static_cast<uint32_t>(Code::kInterrupted);
  OnStop(interrupted ? Code::kInterrupted : Code::kTerminated, now, out);
}

void Coordinator::OnRound(Peer from, const Message& message, Time now, ControlActions* out) {
  if (Worker* worker = roster_.ByPeer(from); worker != nullptr) {
    if (worker->presence == Presence::kLost)
      return EmitSend(from, GivenUp(worker->incarnation), out);
    Hear(worker, now);
  }
  Sends sends;
  lane_.OnMessage(from, message, &sends);
  EmitSends(std::move(sends), out);
}

void Coordinator::OnStateWant(Peer from, const Message& message, Time now, ControlActions* out) {
  if (!gathered_) return;  // it will ask again
  const pb::StateWant& want = message.head.state_want();
  Worker* const wants = roster_.MemberOf(from, want.rank(), want.incarnation());
  if (wants == nullptr || !wants->live()) return;
  Hear(wants, now);
  const Worker* donor = nullptr;  // the live worker with the highest applied round
  const auto worth = [](const Worker& worker) {
    return std::make_pair(!worker.suspect, worker.applied);
  };
  for (const Worker& worker : roster_.workers) {
    if (&worker == wants || !worker.live() || worker.joining) continue;
    if (donor == nullptr || worth(worker) > worth(*donor)) donor = &worker;
  }
  if (donor != nullptr) return EmitSend(donor->peer, message, out);
  // It asks again; meanwhile one who has it may come back.
  if (!roster_.MayHoldStateBeside(wants)) LoseState("", Code::kPeerLost, now, out);
}

void Coordinator::OnStatePiece(Peer from, const Message& message, ControlActions* out) {
  const Worker* const donor = roster_.ByPeer(from);
  if (donor == nullptr || !donor->live() || donor->joining) return;
  const pb::StatePiece& piece = message.head.state_piece();
  if (piece.rank() >= roster_.workers.size()) return;
  const Worker& wants = roster_.workers[piece.rank()];
  if (&wants == donor || !wants.live() || wants.incarnation != piece.incarnation()) return;
  EmitSend(wants.peer, message, out);
}

void Coordinator::OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out) {
  if (bye.code() != 0) return OnFailure(from, bye, now, out);
  Worker* const member = roster_.MemberOf(from, bye.rank(), bye.incarnation());
  // Before all have gathered only one that was done in a life of shard 0 before can be.
  if (member == nullptr || (!gathered_ && !member->hello.done()))
    return EmitSend(from, Refusal(Code::kNotAllowed, "not a member", pb::Refuse::retry), out);
  if (member->presence == Presence::kLost) return EmitSend(from, GivenUp(member->incarnation), out);
  member->presence = Presence::kDone;
  Hear(member, now);
  member->figures = bye.figures();
  member->counters = bye.counters();
  member->steps_done = bye.steps();
  EndIfAllDone(now, out);
}

void Coordinator::OnFailure(Peer from, const pb::Bye& bye, Time now, ControlActions* out) {
  if (roster_.IsOnAnotherConnection(from, bye.rank(), bye.incarnation()))
    return EmitSend(from, Refusal(Code::kNotAllowed, "say hello first", pb::Refuse::retry), out);
  const Status error = ErrorFromPeer(bye.code(), bye.sentence());
  Message end;  // whoever it is may go
  end.head.mutable_end()->set_code(static_cast<uint32_t>(ExitCode(error)));
  end.head.mutable_end()->set_sentence(error.message());
  EmitSend(from, std::move(end), out);
  Worker* const member = roster_.MemberOf(from, bye.rank(), bye.incarnation());
  if (member == nullptr || member->presence == Presence::kDone) return;
  const bool lost = member->presence == Presence::kLost;
  if (lost && !member->may_return) return;  // it said so before, or the others go on without it
  member->counters = bye.counters();
  const bool data_of_its_own =
      options_.elasticity.shrink() && error.code() == Code::kBadData && gathered_;
  if (IsLasting(error.code()) && !data_of_its_own) {
    return Abort(error.code(), roster_.Name(bye.rank()) + " ended the job: " + error.message(), now,
                 out);
  }
  const Code code = IsLasting(error.code()) ? error.code() : Code::kPeerLost;
  Lose(bye.rank(), {"it left: " + error.message(), code, true}, now, out);
}

Message Coordinator::GivenUp(uint64_t incarnation) const {
  if (CanGoBack() && !gathered_) {
    Message message;
    message.head.mutable_go_back()->set_incarnation(incarnation);
    return message;
  }
  return Refusal(Code::kNotAllowed, "given up while silent", pb::Refuse::rejoin);
}

}  // namespace tern::protocol
