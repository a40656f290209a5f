#include "common/protocol/members/shard0/membership.h"

#include <utility>

namespace tern::protocol {

void Membership::Publish(ControlActions* out) {
  Message message;
  *message.head.mutable_members() = MakeMembers();
  Sends sends;
  job_.lane.OnMembers(message.head.members(), &sends);
  EmitSends(std::move(sends), out);
  EmitMembers(message.head.members(), out);
  for (const auto& [shard, follower] : job_.roster.shards) {
    if (follower.peer != 0) EmitSend(follower.peer, message, out);
  }
}

void Membership::PublishNext(ControlActions* out) {
  ++job_.roster.epoch;
  Publish(out);
}

void Membership::TellShard(Peer shard, ControlActions* out) const {
  Message message;
  *message.head.mutable_members() = MakeMembers();
  EmitSend(shard, std::move(message), out);
}

void Membership::WelcomeMember(const Roster::Worker& worker, ControlActions* out) {
  SendWelcome(worker, out);
  PassHelloToLane(worker, out);
}

void Membership::WelcomeAll(ControlActions* out) {
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (worker.live()) PassHelloToLane(worker, out);
  }
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (worker.live()) SendWelcome(worker, out);
  }
}

Message Membership::AnswerToRemovedWorker(uint64_t incarnation) const {
  if (job_.CanGoBack() && !job_.running()) return MakeGoBack(incarnation, job_.why_going_back);
  return MakeRefusal(Code::kNotAllowed, "given up while silent", pb::Refuse::rejoin);
}

pb::Members Membership::MakeMembers() const {
  const Roster& roster = job_.roster;
  pb::Members members;
  members.set_epoch(roster.epoch);
  members.set_steps(roster.steps);
  members.set_run(roster.run);
  for (uint32_t rank = 0; rank < roster.workers.size(); ++rank) {
    const Roster::Worker& worker = roster.workers[rank];
    const bool is_removed = job_.options.elasticity.shrinks_on_loss() && !worker.live();
    members.add_incarnations(is_removed ? 0 : worker.incarnation);
    if (worker.joining && !worker.joins_from_begin && !is_removed) members.add_joining(rank);
  }
  if (job_.beginning != 0) {
    members.set_beginning(job_.beginning);
    members.set_begin(job_.begin.round());
    if (job_.begin.checkpoint.has_value()) *members.mutable_resume() = *job_.begin.checkpoint;
  }
  return members;
}

// Passes the worker's hello to the control lane (the state machine behind shard 0's control
// socket). Marks the hello as fresh (without state) only if the worker is joining, that is, still
// has to get state; any other worker has state: at least the initial weights.
void Membership::PassHelloToLane(const Roster::Worker& worker, ControlActions* out) {
  pb::Hello hello = worker.hello;
  hello.set_fresh(worker.joining);
  Sends sends;
  job_.lane.OnHello(worker.peer, hello, &sends);
  EmitSends(std::move(sends), out);
}

void Membership::SendWelcome(const Roster::Worker& worker, ControlActions* out) const {
  Message message;
  pb::Welcome* welcome = message.head.mutable_welcome();
  welcome->set_incarnation(job_.options.incarnation);
  welcome->set_epoch(worker.epoch);
  welcome->set_needs_state(worker.joining);
  welcome->set_run(job_.roster.run);
  const bool is_new_rank = worker.joining && worker.lacks_checkpoint;
  if (is_new_rank) *welcome->mutable_others_resume() = *job_.begin.checkpoint;
  if (worker.joins_from_begin && job_.begin.workers_load_checkpoint &&
      job_.begin.checkpoint.has_value() && !is_new_rank) {
    *welcome->mutable_resume() = *job_.begin.checkpoint;
  } else if (worker.joins_from_begin) {
    welcome->set_begin(job_.begin.round());
  }
  for (uint32_t port : job_.options.data_ports) welcome->add_data_ports(port);
  EmitSend(worker.peer, std::move(message), out);
}

}  // namespace tern::protocol
