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

constexpr size_t kRetired = 8;  // incarnations of a rank that are remembered

Message Refusal(Code code, std::string sentence, pb::Refuse::Then then) {
  return MakeRefuse(static_cast<int>(code), std::move(sentence), then);
}

Message GivenUp() {
  return Refusal(Code::kNotAllowed, "given up while silent", pb::Refuse::rejoin);
}

Message Replaced(uint32_t rank) {
  return Refusal(Code::kPeerLost,
                 "another process had rank " + std::to_string(rank) +
                     " while this worker was away; start it again",
                 pb::Refuse::leave);
}

}  // namespace

Coordinator::Coordinator(ControlOptions options, std::vector<CellSpec> cells)
    : options_(std::move(options)),
      lane_(LaneOptions(options_), std::move(cells)),
      workers_(options_.workers) {}

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
    case pb::Envelope::kEnd:
      return;  // the answer to what we said in a life before
    default:
      return OnRound(from, message, now, out);
  }
}

void Coordinator::OnHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  if (Status checked = CheckHello(hello, options_.expected); !checked.ok()) {
    EmitLog("refused a hello from " + hello.host() + ": " + checked.message(), out);
    return EmitSend(from, Refusal(checked.code(), checked.message(), pb::Refuse::leave), out);
  }
  if (hello.role() == pb::Hello::shard) return OnShardHello(from, hello, now, out);
  if (hello.rank() >= workers_.size()) {
    return EmitSend(from,
                    Refusal(Code::kMismatch,
                            "there is no worker " + std::to_string(hello.rank()) +
                                ": the job has " + std::to_string(workers_.size()),
                            pb::Refuse::leave),
                    out);
  }
  if (steps_ == 0) steps_ = hello.steps();
  if (hello.steps() != steps_) {
    const std::string sentence = "worker " + std::to_string(hello.rank()) + " counts " +
                                 std::to_string(hello.steps()) + " steps, others " +
                                 std::to_string(steps_) + "; give all workers the same data";
    return EmitSend(from, Refusal(Code::kMismatch, sentence, pb::Refuse::leave), out);
  }
  Worker& worker = workers_[hello.rank()];
  const bool retired = std::find(worker.retired.begin(), worker.retired.end(),
                                 hello.incarnation()) != worker.retired.end();
  if (retired ||
      (worker.incarnation == hello.incarnation() && worker.presence == Presence::kLost)) {
    return EmitSend(from, GivenUp(), out);
  }
  if (worker.incarnation != hello.incarnation()) {
    if (!MayTake(&worker, from, hello, now, out)) return;
    return Admit(&worker, from, hello, now, out);
  }
  worker.peer = from;  // said again, perhaps on a new connection
  worker.heard_at = now;
  worker.hello = hello;
  worker.joining &= hello.fresh();
  if (!gathered_) return;
  Welcome(worker, out);
  Sends sends;
  lane_.OnHello(from, hello, &sends);
  EmitSends(std::move(sends), out);
}

bool Coordinator::MayTake(Worker* worker, Peer from, const pb::Hello& hello, Time now,
                          ControlActions* out) {
  if (worker->presence == Presence::kLost && !hello.fresh() &&
      hello.epoch() < worker->first_epoch) {
    EmitSend(from, Replaced(hello.rank()), out);
    return false;
  }
  if (worker->presence == Presence::kAbsent || worker->presence == Presence::kLost) return true;
  // The holder was replaced before our restart; but who has state is not put off for who has none.
  const bool poorer = hello.fresh() && !worker->hello.fresh();
  if (!gathered_ && hello.epoch() > worker->epoch && !poorer) return true;
  if (worker->rival != hello.incarnation()) {
    worker->rival = hello.incarnation();
    worker->rival_since = now;
  }
  // The holder may just have died: wait until it is heard for so long that it has not, or given up.
  if (worker->heard_at <= worker->rival_since + options_.timings.suspect_after) {
    EmitSend(from, Refusal(Code::kNotAllowed, "the rank is taken", pb::Refuse::retry), out);
    return false;
  }
  EmitSend(from,
           Refusal(Code::kNotAllowed,
                   "rank " + std::to_string(hello.rank()) + " is taken by " + Name(hello.rank()) +
                       ", which is alive",
                   pb::Refuse::leave),
           out);
  EmitLog(
      "refused a second process of rank " + std::to_string(hello.rank()) + " on " + hello.host(),
      out);
  return false;
}

void Coordinator::Admit(Worker* worker, Peer from, const pb::Hello& hello, Time now,
                        ControlActions* out) {
  const bool back = worker->presence == Presence::kLost;
  const uint64_t first_epoch = worker->first_epoch;
  std::vector<uint64_t> retired = std::move(worker->retired);
  if (worker->incarnation != 0) retired.push_back(worker->incarnation);
  if (retired.size() > kRetired) retired.erase(retired.begin());
  *worker = Worker{};
  worker->retired = std::move(retired);
  worker->presence = Presence::kPresent;
  worker->incarnation = hello.incarnation();
  worker->epoch = worker->first_epoch = hello.epoch();
  worker->peer = from;
  worker->hello = hello;
  worker->heard_at = worker->moved_at = now;
  worker->applied = hello.applied();
  EmitLog(Name(hello.rank()) + (back ? " has come back" : " is here"), out);
  if (!gathered_) return GatherIfComplete(now, out);
  worker->joining = hello.fresh();
  worker->epoch = ++epoch_;
  worker->first_epoch = hello.fresh() ? epoch_ : first_epoch;
  PublishMembers(out);
  Welcome(*worker, out);
  Sends sends;
  lane_.OnHello(from, hello, &sends);
  EmitSends(std::move(sends), out);
}

bool Coordinator::CannotGather(Time now, ControlActions* out) {
  bool anyone_has_state = false, begun = false;
  uint64_t floor = 0;
  for (const Worker& worker : workers_) {
    begun |= worker.hello.epoch() != 0;
    anyone_has_state |= !worker.hello.fresh();
    floor = std::max(floor, worker.hello.floor());
  }
  if (begun && !anyone_has_state) {
    Abort(Code::kPeerLost, "no live worker holds the state of the job", now, out);
    return true;
  }
  for (Worker& worker : workers_) {
    // What one needs to go on from below the floor is gone: its rank was taken while it was away.
    // But it may have moved on since it said hello, so it is asked again.
    if (worker.hello.fresh() || worker.hello.applied() >= floor) continue;
    Message again = Refusal(Code::kNotAllowed, "say hello again", pb::Refuse::retry);
    again.head.mutable_refuse()->set_floor(floor);
    EmitSend(worker.peer, std::move(again), out);
    worker = Worker{};
    return true;
  }
  return false;
}

void Coordinator::GatherIfComplete(Time now, ControlActions* out) {
  const bool all = std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.presence == Presence::kPresent || worker.presence == Presence::kDone;
  });
  if (!all || CannotGather(now, out)) return;
  const bool anyone_has_state = std::any_of(
      workers_.begin(), workers_.end(), [](const Worker& worker) { return !worker.hello.fresh(); });
  for (const Worker& worker : workers_) epoch_ = std::max(epoch_, worker.epoch);
  gathered_ = true;
  ++epoch_;
  PublishMembers(out);
  Sends sends;
  for (Worker& worker : workers_) {
    worker.epoch = epoch_;
    worker.moved_at = now;
    worker.joining = anyone_has_state && worker.hello.fresh();
    if (worker.joining || worker.first_epoch == 0) worker.first_epoch = epoch_;
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

pb::Members Coordinator::Members() const {
  pb::Members members;
  members.set_epoch(epoch_);
  members.set_steps(steps_);
  for (const Worker& worker : workers_) members.add_incarnations(worker.incarnation);
  return members;
}

void Coordinator::PublishMembers(ControlActions* out) {
  Message message;
  *message.head.mutable_members() = Members();
  Sends sends;
  lane_.OnMembers(message.head.members(), &sends);
  EmitSends(std::move(sends), out);
  EmitMembers(message.head.members(), out);
  for (const auto& [shard, follower] : followers_) {
    if (follower.peer != 0) EmitSend(follower.peer, message, out);
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
  found->second = {from, now, false};
  Message message;
  message.head.mutable_welcome()->set_incarnation(options_.incarnation);
  EmitSend(from, std::move(message), out);
  if (!gathered_) return;
  Message members;
  *members.head.mutable_members() = Members();
  EmitSend(from, std::move(members), out);
}

void Coordinator::OnPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out) {
  bool known = false;
  for (auto& [shard, follower] : followers_) {
    if (follower.peer != from) continue;
    known = true;
    follower.heard_at = now;
    follower.silent = false;
  }
  if (!known || !gathered_ || pulse.epoch() <= epoch_) return;
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
  if (worker.presence == Presence::kLost) return EmitSend(from, GivenUp(), out);
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
    if (worker->presence == Presence::kLost) return EmitSend(from, GivenUp(), out);
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
  if (donor == nullptr)
    return Abort(Code::kPeerLost, "no live worker holds the state of the job", now, out);
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
  if (worker.presence == Presence::kLost) return EmitSend(from, GivenUp(), out);
  worker.presence = Presence::kDone;
  worker.heard_at = now;
  worker.figures = bye.figures();
  worker.counters = bye.counters();
  EndIfAllDone(now, out);
}

std::string Coordinator::Name(uint32_t rank) const {
  const pb::Hello& hello = workers_[rank].hello;
  return "worker " + std::to_string(rank) + " (" + hello.host() + ", pid " +
         std::to_string(hello.pid()) + ")";
}

}  // namespace tern::protocol
