#include "common/protocol/members/shard0/farewell.h"

#include <algorithm>
#include <utility>

namespace tern::protocol {

namespace {

// Returns the sender of `message`, a hello, heartbeat or Bye, as a recipient on connection `from`.
template <typename FromDaemon>
Farewell::Recipient SenderOf(pb::Hello::Role role, const FromDaemon& message, Peer from) {
  return {role, message.rank(), role == pb::Hello::worker ? message.incarnation() : 0, from, {}};
}

}  // namespace

void Farewell::Start(Message message, Status status, std::vector<Recipient> recipients,
                     Time resend_after, Time now, ControlActions* out) {
  if (has_started_) return;
  has_started_ = true;
  message_ = std::move(message);
  status_ = std::move(status);
  recipients_ = std::move(recipients);
  resend_after_ = resend_after;
  sent_at_ = now;
  for (const Recipient& recipient : recipients_) {
    if (recipient.peer != 0) EmitSend(recipient.peer, message_, out);
  }
  EndIfAnswered(out);
}

void Farewell::OnMessage(Peer from, const Message& message, ControlActions* out) {
  switch (message.head.body_case()) {
    case pb::Envelope::kEnd:
      for (Recipient& recipient : recipients_) {
        if (recipient.peer == from) recipient.awaited_until = Time{};
      }
      return EndIfAnswered(out);
    case pb::Envelope::kHello:
      return AnswerSender(SenderOf(message.head.hello().role(), message.head.hello(), from), out);
    case pb::Envelope::kHeartbeat:
      return AnswerSender(SenderOf(pb::Hello::worker, message.head.heartbeat(), from), out);
    case pb::Envelope::kBye:
      return AnswerSender(SenderOf(pb::Hello::worker, message.head.bye(), from), out);
    default:
      return;
  }
}

void Farewell::AnswerSender(const Recipient& sender, ControlActions* out) {
  for (Recipient& recipient : recipients_) {
    const bool is_sender = recipient.role == sender.role && recipient.rank == sender.rank &&
                           recipient.incarnation == sender.incarnation;
    const bool is_vacant = recipient.role == pb::Hello::worker && recipient.incarnation == 0;
    if (is_sender && !is_vacant) recipient.peer = sender.peer;  // The connection may be new.
  }
  EmitSend(sender.peer, message_, out);
}

void Farewell::OnTimer(Time now, ControlActions* out) {
  if (is_over_) return;
  const bool is_due = now - sent_at_ >= resend_after_;
  if (is_due) sent_at_ = now;
  for (Recipient& recipient : recipients_) {
    if (now >= recipient.awaited_until) recipient.awaited_until = Time{};
    if (is_due && recipient.awaited_until != Time{} && recipient.peer != 0)
      EmitSend(recipient.peer, message_, out);
  }
  EndIfAnswered(out);
}

void Farewell::EndIfAnswered(ControlActions* out) {
  const bool must_wait =
      std::any_of(recipients_.begin(), recipients_.end(),
                  [](const Recipient& recipient) { return recipient.awaited_until != Time{}; });
  if (is_over_ || must_wait) return;
  is_over_ = true;
  const pb::Envelope& head = message_.head;
  EmitEnded(status_, head.has_end() ? head.end().last_step() : head.abort().last_step(), out);
}

}  // namespace tern::protocol
