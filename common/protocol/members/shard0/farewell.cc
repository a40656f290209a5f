#include "common/protocol/members/shard0/farewell.h"

#include <algorithm>
#include <utility>

namespace tern::protocol {

namespace {

template <typename Said>
Farewell::Guest Who(pb::Hello::Role role, const Said& said, Peer from) {
  return {role, said.rank(), role == pb::Hello::worker ? said.incarnation() : 0, from, true};
}

}  // namespace

void Farewell::Start(Message message, Status status, std::vector<Guest> guests, Time again_after,
                     Time until, Time now, ControlActions* out) {
  if (started_) return;
  started_ = true;
  message_ = std::move(message);
  status_ = std::move(status);
  guests_ = std::move(guests);
  again_after_ = again_after;
  said_at_ = now;
  until_ = until;
  for (const Guest& guest : guests_) {
    if (guest.peer != 0) EmitSend(guest.peer, message_, out);
  }
  EndIfAnswered(out);
}

void Farewell::OnMessage(Peer from, const Message& message, ControlActions* out) {
  switch (message.head.body_case()) {
    case pb::Envelope::kEnd:
      for (Guest& guest : guests_) guest.expected &= guest.peer != from;
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

void Farewell::Tell(const Guest& who, ControlActions* out) {
  for (Guest& guest : guests_) {
    const bool same =
        guest.role == who.role && guest.rank == who.rank && guest.incarnation == who.incarnation;
    const bool nobody = guest.role == pb::Hello::worker && guest.incarnation == 0;
    if (same && !nobody) guest.peer = who.peer;  // a new connection
  }
  EmitSend(who.peer, message_, out);
}

void Farewell::OnTimer(Time now, ControlActions* out) {
  if (over_) return;
  const bool again = now - said_at_ >= again_after_;
  if (again) said_at_ = now;
  for (Guest& guest : guests_) {
    guest.expected &= now < until_;
    if (again && guest.expected && guest.peer != 0) EmitSend(guest.peer, message_, out);
  }
  EndIfAnswered(out);
}

void Farewell::EndIfAnswered(ControlActions* out) {
  const bool wait = std::any_of(guests_.begin(), guests_.end(),
                                [](const Guest& guest) { return guest.expected; });
  if (over_ || wait) return;
  over_ = true;
  EmitEnded(status_, out);
}

}  // namespace tern::protocol
