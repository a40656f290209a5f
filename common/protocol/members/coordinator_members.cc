// Who belongs to the job: how the coordinator gathers workers, admits them and tells the others.
#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "common/protocol/members/coordinator.h"

namespace tern::protocol {

namespace {

using Presence = Coordinator::Worker::Presence;

constexpr size_t kHostBytes = 256;  // of a host's name, as messages tell it

Message Replaced(uint32_t rank) {
  return Refusal(Code::kPeerLost,
                 "another process had rank " + std::to_string(rank) +
                     " while this worker was away; start it again",
                 pb::Refuse::leave);
}

}  // namespace

void Coordinator::OnHello(Peer from, const pb::Hello& said, Time now, ControlActions* out) {
  pb::Hello hello = said;
  hello.set_host(Printable(said.host(), kHostBytes));
  if (Status checked = CheckHello(hello, options_.expected); !checked.ok()) {
    EmitLog("refused a hello from " + hello.host() + ": " + checked.message(), out);
    return EmitSend(from, Refusal(checked.code(), checked.message(), pb::Refuse::leave), out);
  }
  if (hello.role() == pb::Hello::shard) return OnShardHello(from, hello, now, out);
  OnWorkerHello(from, hello, now, out);
}

void Coordinator::OnWorkerHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  if (hello.rank() >= roster_.workers.size()) {
    return EmitSend(from,
                    Refusal(Code::kMismatch,
                            "there is no worker " + std::to_string(hello.rank()) +
                                ": the job has " + std::to_string(roster_.workers.size()),
                            pb::Refuse::leave),
                    out);
  }
  if (roster_.steps != 0 && hello.steps() != roster_.steps) {
    const std::string sentence = "worker " + std::to_string(hello.rank()) + " counts " +
                                 std::to_string(hello.steps()) + " steps, others " +
                                 std::to_string(roster_.steps) + "; give all workers the same data";
    return EmitSend(from, Refusal(Code::kMismatch, sentence, pb::Refuse::leave), out);
  }
  Worker& worker = roster_.workers[hello.rank()];
  const bool retired = std::find(worker.retired.begin(), worker.retired.end(),
                                 hello.incarnation()) != worker.retired.end();
  if (retired ||
      (worker.incarnation == hello.incarnation() && worker.presence == Presence::kLost)) {
    return EmitSend(from, GivenUp(hello.incarnation()), out);
  }
  if (worker.incarnation != hello.incarnation()) {
    if (!MayTake(&worker, from, hello, now, out)) return;
    return Admit(&worker, from, hello, now, out);
  }
  worker.peer = from;  // said again, perhaps on a new connection
  Hear(&worker, now);
  worker.hello = hello;
  worker.joining &= hello.fresh();
  worker.begins &= hello.fresh();
  if (!gathered_) return;
  Welcome(worker, out);
  GreetLane(worker, out);
}

// To the lane whoever does not have to fetch State has some: the initial weights at least.
void Coordinator::GreetLane(const Worker& worker, ControlActions* out) {
  pb::Hello hello = worker.hello;
  hello.set_fresh(worker.joining);
  Sends sends;
  lane_.OnHello(worker.peer, hello, &sends);
  EmitSends(std::move(sends), out);
}

bool Coordinator::MayTake(Worker* worker, Peer from, const pb::Hello& hello, Time now,
                          ControlActions* out) {
  const bool shrinks = options_.elasticity.shrink();
  if (shrinks && gathered_ && !hello.fresh() && !hello.done()) {
    // The others may have gone on without what it holds.
    EmitSend(from, GivenUp(hello.incarnation()), out);
    return false;
  }
  const bool lost = worker->presence == Presence::kLost || worker->awaited;
  if (lost && !hello.fresh() && hello.epoch() < worker->first_epoch) {
    EmitSend(from, Replaced(hello.rank()), out);
    return false;
  }
  if (lost || worker->presence == Presence::kAbsent) return true;
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
                   "rank " + std::to_string(hello.rank()) + " is taken by " +
                       roster_.Name(hello.rank()) + ", which is alive",
                   pb::Refuse::leave),
           out);
  EmitLog(
      "refused a second process of rank " + std::to_string(hello.rank()) + " on " + hello.host(),
      out);
  return false;
}

void Coordinator::Admit(Worker* worker, Peer from, const pb::Hello& hello, Time now,
                        ControlActions* out) {
  const bool back = worker->presence == Presence::kLost || worker->awaited;
  const uint64_t first_epoch = worker->first_epoch;
  // All who held the state of the job are gone then.
  const bool without_state = gathered_ && options_.workers_hold_state && hello.fresh() &&
                             !roster_.MayHoldStateBeside(worker);
  const std::string again = roster_.Name(hello.rank()) + " was started again";
  if (without_state && CanGoBack()) {
    LoseState(again, Code::kPeerLost, now, out);
  } else if (gathered_ && TakesAllBack(hello)) {
    GoBack(again + ", and what it had of its own is on its disk alone", now, out);
  }
  if (worker->awaited) Excuse(now);
  worker->Retire();
  stragglers_.Forget(hello.rank());
  worker->presence = Presence::kPresent;
  worker->incarnation = hello.incarnation();
  worker->epoch = worker->first_epoch = hello.epoch();
  worker->peer = from;
  worker->hello = hello;
  worker->heard_at = worker->moved_at = now;
  worker->applied = hello.applied();
  roster_.steps = hello.steps();
  EmitLog(roster_.Name(hello.rank()) + (back ? " has come back" : " is here"), out);
  if (!gathered_) return GatherIfComplete(now, out);
  if (without_state) return LoseState(again, Code::kPeerLost, now, out);
  worker->joining = options_.workers_hold_state && hello.fresh();
  worker->epoch = ++roster_.epoch;
  worker->first_epoch = hello.fresh() ? roster_.epoch : first_epoch;
  PublishMembers(out);
  Welcome(*worker, out);
  GreetLane(*worker, out);
}

bool Coordinator::CannotGather(Time now, ControlActions* out) {
  bool anyone_has_state = false, begun = false;
  uint64_t floor = 0;
  for (const Worker& worker : roster_.workers) {
    if (!worker.live()) continue;
    begun |= worker.hello.epoch() != 0;
    anyone_has_state |= !worker.hello.fresh();
    floor = std::max(floor, worker.hello.floor());
  }
  if (begun && !anyone_has_state && options_.workers_hold_state) {
    Abort(Code::kPeerLost, "no live worker holds the state of the job", now, out);
    return true;
  }
  bool removed = false;
  for (Worker& worker : roster_.workers) {
    // What a worker below the floor needs is gone: its rank was taken while it was away. It may
    // have advanced since it said hello, so it is asked again.
    if (!worker.live() || worker.hello.fresh() || worker.hello.applied() >= floor) continue;
    Message again = Refusal(Code::kNotAllowed, "say hello again", pb::Refuse::retry);
    again.head.mutable_refuse()->set_floor(floor);
    EmitSend(worker.peer, std::move(again), out);
    worker = Worker{};
    removed = true;
  }
  return removed && !HasGathered(now);
}

bool Coordinator::HasGathered(Time now) const {
  if (going_back_) return HasGatheredAgain(now);
  uint32_t live = 0;
  bool anyone_has_state = false;
  for (const Worker& worker : roster_.workers) {
    live += worker.live();
    anyone_has_state |= worker.live() && !worker.hello.fresh();
  }
  if (live == roster_.workers.size()) return true;
  if (!options_.elasticity.shrink() || live < options_.elasticity.min_workers || !anyone_has_state)
    return false;
  if (now - started_at_ > options_.timings.start_timeout) return true;
  // After a restart: all but those whom they had gone on without.
  for (uint32_t rank = 0; rank < roster_.workers.size(); ++rank) {
    if (roster_.workers[rank].live()) continue;
    for (const Worker& worker : roster_.workers) {
      if (!worker.live() || worker.hello.fresh()) continue;
      const auto& gone = worker.hello.gone();
      if (std::find(gone.begin(), gone.end(), rank) == gone.end()) return false;
    }
  }
  return true;
}

void Coordinator::GatherIfComplete(Time now, ControlActions* out) {
  if (!HasGathered(now)) return;
  if (NeedsBegin()) {
    if (!MayBegin(now, out)) return;
  } else if (!options_.begins_from_shards && CannotGather(now, out)) {
    return;
  }
  AdmitGathered(now);
  PublishMembers(out);
  for (const Worker& worker : roster_.workers) {
    if (worker.live()) GreetLane(worker, out);
  }
  for (const Worker& worker : roster_.workers) {
    if (worker.live()) Welcome(worker, out);
  }
  EmitLog(roster_.Live() == roster_.workers.size()
              ? "all " + std::to_string(roster_.workers.size()) + " workers are here"
              : "going on with " + roster_.LiveText(),
          out);
  EndIfAllDone(now, out);
}

void Coordinator::AdmitGathered(Time now) {
  bool anyone_has_state = false;
  for (const Worker& worker : roster_.workers) {
    roster_.epoch = std::max(roster_.epoch, worker.epoch);
    if (!worker.live() || worker.hello.fresh()) continue;
    anyone_has_state = true;
    if (worker.hello.run() != 0) roster_.run = worker.hello.run();
  }
  const bool goes_back = std::exchange(going_back_, false) || begin_.from.has_value();
  called_ = asking_ = false;
  if (!anyone_has_state && !goes_back) roster_.run = options_.incarnation;  // as good a name as any
  gathered_ = true;
  ++roster_.epoch;
  for (Worker& worker : roster_.workers) {
    if (!worker.live()) continue;
    worker.epoch = roster_.epoch;
    worker.moved_at = now;
    worker.begins = goes_back;
    worker.joining =
        goes_back || (options_.workers_hold_state && anyone_has_state && worker.hello.fresh());
    if (worker.joining || worker.first_epoch == 0) worker.first_epoch = roster_.epoch;
  }
}

void Coordinator::Welcome(const Worker& worker, ControlActions* out) {
  Message message;
  pb::Welcome* welcome = message.head.mutable_welcome();
  welcome->set_incarnation(options_.incarnation);
  welcome->set_epoch(worker.epoch);
  welcome->set_needs_state(worker.joining);
  welcome->set_run(roster_.run);
  if (worker.begins && begin_.workers_load && begin_.from.has_value()) {
    *welcome->mutable_resume() = *begin_.from;
  } else if (worker.begins) {
    welcome->set_begin(begin_.round());
  }
  for (uint32_t port : options_.data_ports) welcome->add_data_ports(port);
  EmitSend(worker.peer, std::move(message), out);
}

pb::Members Coordinator::Members() const {
  pb::Members members;
  members.set_epoch(roster_.epoch);
  members.set_steps(roster_.steps);
  members.set_run(roster_.run);
  for (uint32_t rank = 0; rank < roster_.workers.size(); ++rank) {
    const Worker& worker = roster_.workers[rank];
    const bool removed = options_.elasticity.shrink() && !worker.live();
    members.add_incarnations(removed ? 0 : worker.incarnation);
    if (worker.joining && !worker.begins && !removed) members.add_joining(rank);
  }
  if (beginning_ != 0) {
    members.set_beginning(beginning_);
    members.set_begin(begin_.round());
    if (begin_.from.has_value()) *members.mutable_resume() = *begin_.from;
  }
  return members;
}

void Coordinator::PublishMembers(ControlActions* out) {
  Message message;
  *message.head.mutable_members() = Members();
  Sends sends;
  lane_.OnMembers(message.head.members(), &sends);
  EmitSends(std::move(sends), out);
  EmitMembers(message.head.members(), out);
  for (const auto& [shard, follower] : roster_.shards) {
    if (follower.peer != 0) EmitSend(follower.peer, message, out);
  }
}

}  // namespace tern::protocol
