#include "common/protocol/coordinator.h"

#include <algorithm>
#include <utility>

namespace tern::protocol {

namespace {

using Presence = Coordinator::Worker::Presence;

Lane::Options LaneOptions(const ControlOptions& options) {
  Lane::Options lane;
  lane.workers = options.workers;
  lane.incarnation = options.incarnation;
  lane.welcomes = false;  // the coordinator does, with more to say
  lane.safeguards = options.safeguards;
  return lane;
}

Message Refusal(Code code, std::string sentence, pb::Refuse::Then then) {
  return MakeRefuse(static_cast<int>(code), std::move(sentence), then);
}

}  // namespace

Coordinator::Coordinator(ControlOptions options, std::vector<CellSpec> cells)
    : options_(std::move(options)), lane_(LaneOptions(options_), std::move(cells)), workers_(options_.workers) {}

void Coordinator::Start(Time now, ControlActions*) {
  started_at_ = now;
  for (uint32_t s = 1; s < options_.shards; ++s) followers_[s].heard_at = now;
}

void Coordinator::OnMessage(Peer from, const Message& message, Time now, ControlActions* out) {
  if (ended_) return;
  switch (message.head.body_case()) {
    case pb::Envelope::kHello: return OnHello(from, message.head.hello(), now, out);
    case pb::Envelope::kHeartbeat: return OnHeartbeat(from, message.head.heartbeat(), now, out);
    case pb::Envelope::kStateWant: return OnStateWant(from, message, out);
    case pb::Envelope::kStatePiece: return OnStatePiece(message, out);
    case pb::Envelope::kBye: return OnBye(from, message.head.bye(), now, out);
    case pb::Envelope::kPulse:
      for (auto& [shard, follower] : followers_) {
        if (follower.peer == from) follower.heard_at = now;
      }
      return;
    default: return OnRound(from, message, now, out);
  }
}

void Coordinator::OnHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  if (Status checked = CheckHello(hello, options_.expected); !checked.ok()) {
    EmitLog("refused a hello from " + hello.host() + ": " + checked.message(), out);
    return EmitSend(from, Refusal(checked.code(), checked.message(), pb::Refuse::leave), out);
  }
  if (hello.role() == pb::Hello::shard) return OnShardHello(from, hello, now, out);
  if (hello.rank() >= workers_.size()) {
    return EmitSend(from, Refusal(Code::kMismatch, "there is no worker " + std::to_string(hello.rank()) + ": the job has " +
                                                       std::to_string(workers_.size()), pb::Refuse::leave), out);
  }
  Worker& worker = workers_[hello.rank()];
  if (worker.incarnation != hello.incarnation()) {
    if (!MayTake(&worker, from, hello, now, out)) return;
    return Admit(&worker, from, hello, now, out);
  }
  if (worker.presence == Presence::kLost) {
    return EmitSend(from, Refusal(Code::kNotAllowed, "given up while silent", pb::Refuse::rejoin), out);
  }
  worker.peer = from;  // said again, perhaps on a new connection
  worker.heard_at = now;
  worker.hello = hello;
  if (!gathered_) return;
  Welcome(worker, out);
  Sends sends;
  lane_.OnHello(from, hello, &sends);
  EmitSends(std::move(sends), out);
}

bool Coordinator::MayTake(Worker* worker, Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  if (worker->presence == Presence::kAbsent || worker->presence == Presence::kLost) return true;
  if (worker->presence == Presence::kPresent) {
    if (!gathered_ && hello.epoch() > worker->epoch) return true;  // the holder was replaced before our restart
    if (worker->rival != hello.incarnation()) {
      worker->rival = hello.incarnation();
      worker->rival_since = now;
    }
    // The holder may just have died: wait until it is heard again, or given up.
    if (worker->heard_at <= worker->rival_since + 2 * options_.timings.heartbeat) {
      EmitSend(from, Refusal(Code::kNotAllowed, "the rank is taken", pb::Refuse::retry), out);
      return false;
    }
  }
  EmitSend(from, Refusal(Code::kNotAllowed, "rank " + std::to_string(hello.rank()) + " is taken by " +
                                                Name(hello.rank()) + ", which is alive", pb::Refuse::leave), out);
  EmitLog("refused a second process of rank " + std::to_string(hello.rank()) + " on " + hello.host(), out);
  return false;
}

void Coordinator::Admit(Worker* worker, Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  const bool back = worker->presence == Presence::kLost;
  *worker = Worker{};
  worker->presence = Presence::kPresent;
  worker->incarnation = hello.incarnation();
  worker->epoch = hello.epoch();
  worker->peer = from;
  worker->hello = hello;
  worker->heard_at = worker->moved_at = now;
  worker->applied = hello.applied();
  EmitLog(Name(hello.rank()) + (back ? " has come back" : " is here"), out);
  if (!gathered_) return GatherIfComplete(out);
  worker->joining = hello.fresh();
  worker->epoch = ++epoch_;
  PublishMembers(out);
  Welcome(*worker, out);
  Sends sends;
  lane_.OnHello(from, hello, &sends);
  EmitSends(std::move(sends), out);
}

void Coordinator::GatherIfComplete(ControlActions* out) {
  bool anyone_has_state = false;
  for (const Worker& worker : workers_) {
    if (worker.presence != Presence::kPresent) return;
    anyone_has_state |= !worker.hello.fresh();
    epoch_ = std::max(epoch_, worker.epoch);
  }
  gathered_ = true;
  ++epoch_;
  PublishMembers(out);
  Sends sends;
  for (Worker& worker : workers_) {
    worker.epoch = epoch_;
    worker.joining = anyone_has_state && worker.hello.fresh();
    lane_.OnHello(worker.peer, worker.hello, &sends);
  }
  EmitSends(std::move(sends), out);
  for (const Worker& worker : workers_) Welcome(worker, out);
  EmitLog("all " + std::to_string(workers_.size()) + " workers are here", out);
}

void Coordinator::Welcome(const Worker& worker, ControlActions* out) {
  Message message;
  pb::Welcome* welcome = message.head.mutable_welcome();
  welcome->set_incarnation(options_.incarnation);
  welcome->set_epoch(worker.epoch);
  welcome->set_needs_state(worker.joining);
  for (uint32_t port : options_.data_ports) welcome->add_data_ports(port);
  EmitSend(worker.peer, std::move(message), out);
}

void Coordinator::PublishMembers(ControlActions* out) {
  pb::Members members;
  members.set_epoch(epoch_);
  for (const Worker& worker : workers_) members.add_incarnations(worker.incarnation);
  Sends sends;
  lane_.OnMembers(members, &sends);
  EmitSends(std::move(sends), out);
  EmitMembers(members, out);
  Message message;
  *message.head.mutable_members() = members;
  for (const auto& [shard, follower] : followers_) {
    if (follower.peer != 0) EmitSend(follower.peer, message, out);
  }
}

void Coordinator::OnShardHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  const auto found = followers_.find(hello.rank());
  if (found == followers_.end()) {
    return EmitSend(from, Refusal(Code::kMismatch, "there is no server shard " + std::to_string(hello.rank()),
                                  pb::Refuse::leave), out);
  }
  found->second = {from, now, false};
  Message message;
  message.head.mutable_welcome()->set_incarnation(options_.incarnation);
  EmitSend(from, std::move(message), out);
  if (gathered_) PublishMembers(out);
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
  if (worker.presence == Presence::kLost) {
    return EmitSend(from, Refusal(Code::kNotAllowed, "given up while silent", pb::Refuse::rejoin), out);
  }
  if (worker.suspect) EmitLog(Name(beat.rank()) + " is heard again", out);
  worker.suspect = false;
  worker.heard_at = now;
  worker.counters = beat.counters();
  worker.waiting = beat.waiting();
  if (beat.waiting() || beat.progress() != worker.progress) worker.moved_at = now;
  worker.progress = beat.progress();
  if (!beat.has_applied()) return;
  worker.joining = false;
  worker.applied = std::max(worker.applied, beat.applied());
  lane_.OnApplied(beat.rank(), beat.incarnation(), beat.applied());
}

void Coordinator::OnRound(Peer from, const Message& message, Time now, ControlActions* out) {
  if (Worker* worker = ByPeer(from); worker != nullptr) {
    if (worker->presence == Presence::kLost) {
      return EmitSend(from, Refusal(Code::kNotAllowed, "given up while silent", pb::Refuse::rejoin), out);
    }
    worker->heard_at = now;
  }
  Sends sends;
  lane_.OnMessage(from, message, &sends);
  EmitSends(std::move(sends), out);
}

void Coordinator::OnStateWant(Peer from, const Message& message, ControlActions* out) {
  const Worker* wants = ByPeer(from);
  if (wants == nullptr || wants->incarnation != message.head.state_want().incarnation()) return;
  const Worker* donor = nullptr;  // the live worker with the highest applied round
  for (const Worker& worker : workers_) {
    if (&worker == wants || worker.presence != Presence::kPresent || worker.joining) continue;
    if (donor == nullptr || worker.applied > donor->applied) donor = &worker;
  }
  if (donor == nullptr) {
    bool others = false;
    for (const Worker& worker : workers_) others |= &worker != wants && worker.presence == Presence::kPresent;
    if (!others) Abort(Code::kPeerLost, "no live worker holds the state of the job", out);
    return;
  }
  EmitSend(donor->peer, message, out);
}

void Coordinator::OnStatePiece(const Message& message, ControlActions* out) {
  const pb::StatePiece& piece = message.head.state_piece();
  if (piece.rank() >= workers_.size() || workers_[piece.rank()].incarnation != piece.incarnation()) return;
  EmitSend(workers_[piece.rank()].peer, message, out);
}

void Coordinator::OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out) {
  if (bye.rank() >= workers_.size() || (workers_[bye.rank()].incarnation != bye.incarnation() &&
                                        options_.safeguards.fence_incarnations)) return;
  Worker& worker = workers_[bye.rank()];
  worker.peer = from;
  worker.counters = bye.counters();
  if (bye.code() != 0) {
    if (worker.presence == Presence::kPresent) Lose(bye.rank(), "it left: " + bye.sentence(), now, out);
    Message message;
    message.head.mutable_end()->set_code(bye.code());
    message.head.mutable_end()->set_sentence(bye.sentence());
    return EmitSend(from, std::move(message), out);
  }
  worker.presence = Presence::kDone;
  worker.heard_at = now;
  for (const Worker& other : workers_) {
    if (other.presence != Presence::kDone) return;
  }
  Message end;
  end.head.mutable_end()->set_code(static_cast<uint32_t>(stop_code_));
  const std::string sentence = stop_code_ == Code::kOk ? "" : "the job was stopped in order by a signal";
  end.head.mutable_end()->set_sentence(sentence);
  ToAll(end, out);
  ended_ = true;
  EmitEnded(Status(stop_code_, sentence), out);
}

void Coordinator::OnTimer(Time now, ControlActions* out) {
  if (ended_) return;
  if (now - pulse_at_ >= options_.timings.heartbeat) SendPulses(now, out);
  for (uint32_t rank = 0; rank < workers_.size() && !ended_; ++rank) CheckSilence(rank, now, out);
  if (!ended_) CheckFollowers(now, out);
  if (ended_ || gathered_ || now - started_at_ <= options_.timings.start_timeout) return;
  std::string missing;
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank].presence != Presence::kPresent) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  Abort(Code::kPeerLost, "the job did not start within " + SecondsText(options_.timings.start_timeout) +
                             ": no hello from worker " + missing, out);
}

void Coordinator::SendPulses(Time now, ControlActions* out) {
  pulse_at_ = now;
  Message message;
  pb::Pulse* pulse = message.head.mutable_pulse();
  pulse->set_incarnation(options_.incarnation);
  pulse->set_epoch(epoch_);
  pulse->set_floor(lane_.floor());
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const Presence presence = workers_[rank].presence;
    if (presence == Presence::kAbsent || presence == Presence::kLost) pulse->add_absent(rank);
  }
  ToAll(message, out);
}

void Coordinator::CheckSilence(uint32_t rank, Time now, ControlActions* out) {
  Worker& worker = workers_[rank];
  if (worker.presence == Presence::kLost && now - worker.lost_at > options_.timings.wait_timeout) {
    return Abort(Code::kPeerLost, Name(rank) + " was lost and nobody took its place within " +
                                      SecondsText(options_.timings.wait_timeout), out);
  }
  if (worker.presence != Presence::kPresent) return;
  const Time silent = now - worker.heard_at;
  if (silent > options_.timings.dead_after) return Lose(rank, "silent for " + SecondsText(silent), now, out);
  if (gathered_ && now - worker.moved_at > options_.timings.progress_timeout) {
    return Lose(rank, "its compute thread has not moved for " + SecondsText(now - worker.moved_at), now, out);
  }
  if (silent > options_.timings.suspect_after && !worker.suspect) {
    worker.suspect = true;
    EmitLog(Name(rank) + " is suspect: silent for " + SecondsText(silent) + ", at round " +
                std::to_string(worker.applied + 1), out);
  }
}

void Coordinator::CheckFollowers(Time now, ControlActions* out) {
  for (auto& [shard, follower] : followers_) {
    const Time silent = now - follower.heard_at;
    const std::string name = "server shard " + std::to_string(shard);
    if (silent > (gathered_ ? options_.timings.server_return_timeout : options_.timings.start_timeout)) {
      return Abort(Code::kPeerLost, name + " was lost: silent for " + SecondsText(silent), out);
    }
    if (silent > options_.timings.dead_after && !follower.silent && follower.peer != 0) {
      follower.silent = true;
      EmitLog(name + " is silent for " + SecondsText(silent) + "; waiting for it to come back", out);
    }
  }
}

void Coordinator::Lose(uint32_t rank, const std::string& why, Time now, ControlActions* out) {
  Worker& worker = workers_[rank];
  const std::string what = Name(rank) + " was lost at round " +
                           std::to_string(std::max(worker.applied, lane_.floor()) + 1) + ": " + why;
  if (!gathered_) {  // the job has not begun: its place is free again
    EmitLog(what, out);
    worker = Worker{};
    return;
  }
  if (!options_.wait_for_lost_workers) return Abort(Code::kPeerLost, what, out);
  if (stop_code_ != Code::kOk) return Abort(stop_code_, "stopped by a signal; " + what, out);
  worker.presence = Presence::kLost;
  worker.lost_at = now;
  const bool anyone = std::any_of(workers_.begin(), workers_.end(), [](const Worker& other) {
    return !other.joining && (other.presence == Presence::kPresent || other.presence == Presence::kDone);
  });
  if (!anyone) return Abort(Code::kPeerLost, what + "; no live worker holds the state of the job", out);
  EmitLog(what + "; waiting for its return for up to " + SecondsText(options_.timings.wait_timeout), out);
}

void Coordinator::OnStop(Code code, Time, ControlActions* out) {
  if (ended_ || stop_code_ != Code::kOk) return;
  stop_code_ = code;
  const bool all = std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.presence == Presence::kPresent || worker.presence == Presence::kDone;
  });
  if (!gathered_ || !all) return Abort(code, "stopped by a signal while not all workers were there", out);
  EmitLog("stopping: the round in progress is the last", out);
  out->emplace_back().type = ControlAction::Type::kStop;
}

void Coordinator::Abort(Code code, const std::string& sentence, ControlActions* out) {
  Message message;
  message.head.mutable_abort()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_abort()->set_sentence(sentence);
  ToAll(message, out);
  ended_ = true;
  EmitEnded(Status(code, sentence), out);
}

void Coordinator::ToAll(const Message& message, ControlActions* out) const {
  for (const Worker& worker : workers_) {
    if (worker.peer != 0) EmitSend(worker.peer, message, out);
  }
  for (const auto& [shard, follower] : followers_) {
    if (follower.peer != 0) EmitSend(follower.peer, message, out);
  }
}

std::string Coordinator::Name(uint32_t rank) const {
  const pb::Hello& hello = workers_[rank].hello;
  return "worker " + std::to_string(rank) + " (" + hello.host() + ", pid " + std::to_string(hello.pid()) + ")";
}

}  // namespace tern::protocol
