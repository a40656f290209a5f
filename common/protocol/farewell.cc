#include "common/protocol/farewell.h"

#include <utility>

namespace tern::protocol {

void Farewell::Start(Message message, Status status, const std::vector<Peer>& told,
                     std::vector<Peer> expected, Time again_after, Time until, Time now,
                     ControlActions* out) {
  if (started_) return;
  started_ = true;
  message_ = std::move(message);
  status_ = std::move(status);
  expected_ = std::move(expected);
  again_after_ = again_after;
  said_at_ = now;
  until_ = until;
  for (Peer peer : told) EmitSend(peer, message_, out);
  EndIfAnswered(out);
}

void Farewell::OnMessage(Peer from, const Message& message, ControlActions* out) {
  switch (message.head.body_case()) {
    case pb::Envelope::kEnd:
      std::erase(expected_, from);
      return EndIfAnswered(out);
    case pb::Envelope::kHello:
    case pb::Envelope::kHeartbeat:
    case pb::Envelope::kBye:
      return EmitSend(from, message_, out);
    default:
      return;
  }
}

void Farewell::OnTimer(Time now, ControlActions* out) {
  if (over_) return;
  if (now >= until_) expected_.clear();
  if (now - said_at_ >= again_after_) {
    said_at_ = now;
    for (Peer peer : expected_) EmitSend(peer, message_, out);
  }
  EndIfAnswered(out);
}

void Farewell::EndIfAnswered(ControlActions* out) {
  if (over_ || !expected_.empty()) return;
  over_ = true;
  EmitEnded(status_, out);
}

}  // namespace tern::protocol
