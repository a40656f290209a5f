#include "common/protocol/members/shard0/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"

namespace tern::protocol {

namespace {

// Whether a daemon, asked for a checkpoint `requests` times so far, was asked since the last call.
bool IsNew(uint64_t requests, uint64_t* known_requests) {
  return requests > std::exchange(*known_requests, requests);
}

// The figures of a Bye. The job's table and page show their texts to a person, so no byte of them
// may move a terminal's cursor, whatever the sender has left out.
pb::Figures FiguresIn(const pb::Bye& bye) {
  pb::Figures figures = bye.figures();
  if (figures.has_weights_path())
    figures.set_weights_path(PrintableSentence(figures.weights_path()));
  if (figures.has_weights_error())
    figures.set_weights_error(PrintableSentence(figures.weights_error()));
  return figures;
}

}  // namespace

using Presence = Roster::Worker::Presence;

Coordinator::Coordinator(ControlOptions options, std::vector<CellSpec> cells)
    : job_(std::move(options), std::move(cells)) {}

Status Coordinator::Check() const {
  TERN_RETURN_IF_ERROR(job_.Check());
  return ending_.Check();
}

void Coordinator::Start(Time now, ControlActions*) { liveness_.Start(now); }

void Coordinator::OnMessage(Peer from, const Message& message, Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (job_.ending()) return ending_.OnMessage(from, message, out);
  Dispatch(from, message, now, out);
  going_back_.CheckReplicas(now, out);
}

void Coordinator::Dispatch(Peer from, const Message& message, Time now, ControlActions* out) {
  switch (message.head.body_case()) {
    case pb::Envelope::kHello:
      return admission_.OnHello(from, message.head.hello(), now, out);
    case pb::Envelope::kHeartbeat:
      return OnHeartbeat(from, message.head.heartbeat(), now, out);
    case pb::Envelope::kStateWant:
      return OnStateWant(from, message, now, out);
    case pb::Envelope::kStatePiece:
      return OnStatePiece(from, message, out);
    case pb::Envelope::kBye:
      return OnBye(from, message.head.bye(), now, out);
    case pb::Envelope::kPulse:
      return OnShardPulse(from, message.head.pulse(), now, out);
    case pb::Envelope::kAbort:
      return OnShardAbort(from, message.head.abort(), now, out);
    case pb::Envelope::kEnd:
      return;  // This End answers an earlier process of shard 0.
    default:
      return OnRoundMessage(from, message, now, out);
  }
}

void Coordinator::OnTimer(Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (job_.ending()) return ending_.OnTimer(now, out);
  liveness_.OnTimer(now, out);
  if (!job_.running() && !job_.ending()) gathering_.OnTimer(now, out);
  going_back_.CheckReplicas(now, out);
}

void Coordinator::OnStop(Code code, Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  ending_.OnStop(code, now, out);
}

void Coordinator::OnCheckpointRequest(ControlActions* out) {
  if (job_.running()) out->emplace_back().type = ControlAction::Type::kCheckpoint;
}

bool Coordinator::IsPeerOfJob(Peer peer) const {
  const auto has_peer = [peer](const auto& item) { return item.second.peer == peer; };
  const std::map<uint32_t, Roster::Shard>& shards = job_.roster.shards;
  return job_.roster.HasPeer(peer) || std::any_of(shards.begin(), shards.end(), has_peer);
}

uint64_t Coordinator::FailedShardCheckpoints() const {
  uint64_t failed_checkpoints = job_.options.NumFailedCheckpoints();
  for (const auto& [shard, follower] : job_.roster.shards)
    failed_checkpoints += follower.failed_checkpoints + follower.failed_before;
  return failed_checkpoints;
}

void Coordinator::OnUnreachable(Peer peer, Time now) {
  const CheckInvariantsAtScopeEnd checked(*this);
  liveness_.OnUnreachable(peer, now);
}

// A worker may come back with another key of its rank. A shard may, too, until
// server_return_timeout.
void Coordinator::OnRevoked(Peer peer, Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (job_.ending()) return;
  const std::string why = "its key was revoked";
  EmitSend(peer, MakeRefusal(Code::kNotAllowed, why, pb::Refuse::leave), out);
  for (const auto& [shard, follower] : job_.roster.shards) {
    if (follower.peer == peer) EmitLog(Cat("server shard ", shard, " is cut off: ", why), out);
  }
  const Worker* const worker = job_.roster.FindByPeer(peer);
  if (worker == nullptr || !worker->live()) return;
  const auto rank = static_cast<uint32_t>(worker - job_.roster.workers.data());
  liveness_.HandleLoss(rank, {why, Code::kPeerLost, true}, now, out);
}

void Coordinator::OnFailure(const Status& status, Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (job_.ending()) return;
  // If this process is new, it waits for the other shards, so that each is told why the job ends.
  if (!failed_since_.has_value()) failed_since_ = now;
  if (!job_.roster.AllShardsAreHere() && now - *failed_since_ < job_.options.timings.dead_after)
    return;
  ending_.AbortForShard(status, "server shard 0 cannot go on: " + status.message(), now, out);
}

void Coordinator::OnShardAbort(Peer from, const pb::Abort& abort, Time now, ControlActions* out) {
  for (const auto& [shard, follower] : job_.roster.shards) {
    if (follower.peer != from) continue;
    const Status error = ErrorFromPeer(abort.code(), abort.sentence());
    return ending_.AbortForShard(
        error, Cat("server shard ", shard, " cannot go on: ", error.message()), now, out);
  }
}

void Coordinator::OnShardPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out) {
  bool is_known = false;
  for (auto& [shard, follower] : job_.roster.shards) {
    if (follower.peer != from) continue;
    is_known = true;
    follower.heard_at = now;
    follower.is_silent = false;
    follower.failed_checkpoints = pulse.failed_checkpoints();
    liveness_.LogIfCheckpointsFail(Cat("server shard ", shard), pulse.failed_checkpoints(),
                                   &follower.logged_failed_checkpoints, out);
    if (job_.running() && IsNew(pulse.checkpoint_requests(), &follower.checkpoint_requests))
      OnCheckpointRequest(out);
    if (pulse.stop() != 0) ending_.OnStopFrom(Cat("server shard ", shard), pulse.stop(), now, out);
  }
  const bool is_epoch = pulse.epoch() > job_.roster.epoch && pulse.epoch() <= kMaxCount;
  if (!is_known || !job_.running() || !is_epoch) return;
  // The shard follows the membership of an earlier process of shard 0, whose epoch is higher. It
  // would ignore the membership of this process as older.
  job_.roster.epoch = pulse.epoch();
  membership_.PublishNext(out);
}

void Coordinator::OnHeartbeat(Peer from, const pb::Heartbeat& beat, Time now, ControlActions* out) {
  Worker* const member = job_.roster.MemberOf(from, beat.rank(), beat.incarnation());
  if (member == nullptr)
    return EmitSend(from, MakeRefusal(Code::kNotAllowed, "not a member", pb::Refuse::retry), out);
  if (member->presence == Presence::kLost)
    return EmitSend(from, membership_.AnswerToRemovedWorker(member->incarnation), out);
  EmitEcho(from, beat, out);
  liveness_.OnHeartbeat(member, beat, now, out);
  if (job_.running() && IsNew(beat.checkpoint_requests(), &member->checkpoint_requests))
    OnCheckpointRequest(out);
  if (beat.stop() != 0) ending_.OnStopFrom(job_.roster.Name(beat.rank()), beat.stop(), now, out);
}

void Coordinator::OnRoundMessage(Peer from, const Message& message, Time now, ControlActions* out) {
  if (Worker* worker = job_.roster.FindByPeer(from); worker != nullptr) {
    if (worker->presence == Presence::kLost)
      return EmitSend(from, membership_.AnswerToRemovedWorker(worker->incarnation), out);
    liveness_.Hear(worker, now);
  }
  Sends sends;
  job_.lane.OnMessage(from, message, &sends);
  EmitSends(std::move(sends), out);
}

void Coordinator::OnStateWant(Peer from, const Message& message, Time now, ControlActions* out) {
  if (!job_.running()) return;  // the worker will ask again
  const pb::StateWant& want = message.head.state_want();
  Worker* const receiver = job_.roster.MemberOf(from, want.rank(), want.incarnation());
  if (receiver == nullptr || !receiver->live()) return;
  liveness_.Hear(receiver, now);
  if (!receiver->joining) return;  // It has its state: the donor need not send it again.
  // The donor is a live worker with state: if possible one that is not suspect; among these, the
  // one that has applied the newest round.
  const Worker* donor = nullptr;
  const auto donor_quality = [](const Worker& worker) {
    return std::make_pair(!worker.suspect, worker.applied);
  };
  for (const Worker& worker : job_.roster.workers) {
    if (&worker == receiver || !worker.live() || worker.joining) continue;
    if (donor == nullptr || donor_quality(worker) > donor_quality(*donor)) donor = &worker;
  }
  if (donor != nullptr) return EmitSend(donor->peer, message, out);
  // The receiver will ask again. The state is lost unless a worker with state may still come back,
  // or is about to have it.
  if (!job_.roster.MayHoldStateBeside(receiver) && !job_.roster.SomeWorkerLoadsState())
    going_back_.OnStateLost("", Code::kPeerLost, now, out);
}

void Coordinator::OnStatePiece(Peer from, const Message& message, ControlActions* out) {
  const Worker* const donor = job_.roster.FindByPeer(from);
  if (donor == nullptr || !donor->live() || donor->joining) return;
  const pb::StatePiece& piece = message.head.state_piece();
  if (piece.rank() >= job_.roster.workers.size()) return;
  const Worker& receiver = job_.roster.workers[piece.rank()];
  if (&receiver == donor || !receiver.live() || receiver.incarnation != piece.incarnation()) return;
  EmitSend(receiver.peer, message, out);
}

void Coordinator::OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out) {
  if (bye.code() != 0) return OnFailedWorker(from, bye, now, out);
  Worker* const member = job_.roster.MemberOf(from, bye.rank(), bye.incarnation());
  // While the job gathers its workers, a Bye is valid only from a worker that had finished before
  // shard 0 restarted.
  if (member == nullptr || (!job_.running() && !member->hello.done()))
    return EmitSend(from, MakeRefusal(Code::kNotAllowed, "not a member", pb::Refuse::retry), out);
  if (member->presence == Presence::kLost)
    return EmitSend(from, membership_.AnswerToRemovedWorker(member->incarnation), out);
  member->presence = Presence::kDone;
  liveness_.Hear(member, now);
  member->figures = FiguresIn(bye);
  member->counters = bye.counters();
  member->steps_done = bye.steps();
  ending_.EndIfAllDone(now, out);
}

void Coordinator::OnFailedWorker(Peer from, const pb::Bye& bye, Time now, ControlActions* out) {
  if (job_.roster.IsOnAnotherConnection(from, bye.rank(), bye.incarnation()))
    return EmitSend(from, MakeRefusal(Code::kNotAllowed, "say hello first", pb::Refuse::retry),
                    out);
  const Status error = ErrorFromPeer(bye.code(), bye.sentence());
  Message end;  // A sender that is not a member gets this answer, too, so that it may end.
  end.head.mutable_end()->set_code(static_cast<uint32_t>(ExitCode(error)));
  end.head.mutable_end()->set_sentence(error.message());
  EmitSend(from, std::move(end), out);
  Worker* const member = job_.roster.MemberOf(from, bye.rank(), bye.incarnation());
  if (member == nullptr || member->presence == Presence::kDone) return;
  const bool is_lost = member->presence == Presence::kLost;
  if (is_lost && !member->may_return) return;  // The Bye is repeated, or the others continue.
  member->counters = bye.counters();
  member->figures = FiguresIn(bye);  // if it failed after the job's last evaluation
  // Each worker has its own data and its own disk. The last that has the state says why all end.
  const bool is_of_its_disk = error.code() == Code::kBadData || error.code() == Code::kCannotWrite;
  const bool others_continue = job_.options.elasticity.shrinks_on_loss() && job_.running() &&
                               is_of_its_disk && job_.roster.MayHoldStateBeside(member);
  if (IsLasting(error.code()) && !others_continue) {
    return ending_.Abort(error.code(),
                         Cat(job_.roster.Name(bye.rank()), " ended the job: ", error.message()),
                         now, out);
  }
  const Code code = IsLasting(error.code()) ? error.code() : Code::kPeerLost;
  liveness_.HandleLoss(bye.rank(), {"it left: " + error.message(), code, true}, now, out);
}

}  // namespace tern::protocol
