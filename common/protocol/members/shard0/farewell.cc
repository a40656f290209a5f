#include "common/protocol/members/shard0/farewell.h"

#include <algorithm>
#include <utility>

namespace tern::protocol {

namespace {

template <typename Said>
Farewell::Recipient Who(pb::Hello::Role role, const Said& said, Peer from) {
  return {role, said.rank(), role == pb::Hello::worker ? said.incarnation() : 0, from, true};
}

}  // namespace

void Farewell::Start(Message message, Status status, std::vector<Recipient> recipients,
                     Time again_after, Time until, Time now, ControlActions* out) {
  if (started_) return;
  started_ = true;
  message_ = std::move(message);
  status_ = std::move(status);
  recipients_ = std::move(recipients);
  again_after_ = again_after;
  said_at_ = now;
  until_ = until;
  for (const Recipient& recipient : recipients_) {
    if (recipient.peer != 0) EmitSend(recipient.peer, message_, out);
  }
  EndIfAnswered(out);
}

void Farewell::OnMessage(Peer from, const Message& message, ControlActions* out) {
  switch (message.head.body_case()) {
    case pb::Envelope::kEnd:
      for (Recipient& recipient : recipients_) recipient.expected &= recipient.peer != from;
      return EndIfAnswered(out);
    case pb::Envelope::kHello:
      return Tell(Who(message.head.hello().role(), message.head.hello(), from), out);
    case pb::Envelope::kHeartbeat:
      return Tell(Who(pb::Hello::worker, message.head.heartbeat(), from), out);
    case pb::Envelope::kBye:
      return Tell(Who(pb::Hello::worker, message.head.bye(), from), out);
    default:
      return;
  }
}

void Farewell::Tell(const Recipient& who, ControlActions* out) {
  for (Recipient& recipient : recipients_) {
    const bool same = recipient.role == who.role && recipient.rank == who.rank &&
                      recipient.incarnation == who.incarnation;
    const bool nobody = recipient.role == pb::Hello::worker && recipient.incarnation == 0;
    if (same && !nobody) recipient.peer = who.peer;  // it may have a new connection
  }
  EmitSend(who.peer, message_, out);
}

void Farewell::OnTimer(Time now, ControlActions* out) {
  if (over_) return;
  const bool again = now - said_at_ >= again_after_;
  if (again) said_at_ = now;
  for (Recipient& recipient : recipients_) {
    recipient.expected &= now < until_;
    if (again && recipient.expected && recipient.peer != 0) EmitSend(recipient.peer, message_, out);
  }
  EndIfAnswered(out);
}

void Farewell::EndIfAnswered(ControlActions* out) {
  const bool wait = std::any_of(recipients_.begin(), recipients_.end(),
                                [](const Recipient& recipient) { return recipient.expected; });
  if (over_ || wait) return;
  over_ = true;
  EmitEnded(status_, out);
}

}  // namespace tern::protocol
