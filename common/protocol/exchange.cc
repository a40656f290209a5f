#include "common/protocol/exchange.h"

#include <utility>

namespace tern::protocol {

void Exchange::Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest,
                          Bytes payload, Time now, std::vector<Outgoing>* out) {
  Waiting& waiting = waiting_[Key{round, cell}];
  waiting.lane = lane;
  waiting.digest = digest;
  waiting.payload = std::move(payload);
  SendWhatCreditAllows(lane, now, out);
}

void Exchange::SendWaiting(const Key& key, Waiting* waiting, Time now, std::vector<Outgoing>* out) {
  if (!waiting->sent && key.cell.kind == Kind::kPush)
    lanes_[waiting->lane].unanswered_bytes += waiting->payload.size();
  waiting->sent = true;
  waiting->sent_at = now;
  Outgoing outgoing;
  outgoing.lane = waiting->lane;
  pb::Contribution* c = MutableContribution(key.cell.kind, &outgoing.message.head);
  c->set_round(key.round);
  c->set_bucket(key.cell.bucket);
  c->set_chunk(key.cell.chunk);
  c->set_rank(options_.rank);
  c->set_incarnation(options_.incarnation);
  c->set_applied(applied_);
  if (waiting->digest != 0) c->set_digest(waiting->digest);
  outgoing.message.payload = waiting->payload;
  out->push_back(std::move(outgoing));
}

void Exchange::SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out) {
  LaneState& state = lanes_[lane];
  if (!state.up) return;
  bool first = true;  // no push before this one is sent and not answered
  for (auto& [key, waiting] : waiting_) {
    if (waiting.lane != lane) continue;
    const bool push = key.cell.kind == Kind::kPush;
    if (push && !waiting.sent && !first &&
        state.unanswered_bytes + waiting.payload.size() > options_.credit_bytes) {
      return;
    }
    first &= !push;
    if (waiting.sent) continue;
    SendWaiting(key, &waiting, now, out);
  }
}

std::vector<Exchange::Delivery> Exchange::OnOutcome(LaneRef lane, Kind kind,
                                                    const pb::Outcome& outcome,
                                                    const Bytes& payload, Time now,
                                                    std::vector<Outgoing>* out) {
  std::vector<Delivery> deliveries;
  OnFloor(outcome.floor());
  const Key key{outcome.round(), Cell{kind, outcome.bucket(), outcome.chunk()}};
  const auto found = waiting_.find(key);
  if (found == waiting_.end() || found->second.lane != lane) return deliveries;
  if (found->second.sent && kind == Kind::kPush)
    lanes_[lane].unanswered_bytes -= found->second.payload.size();
  waiting_.erase(found);
  if (outcome.round() > floor_) held_[key] = Held{lane, outcome, payload, false, {}};
  deliveries.push_back({key.cell, outcome, payload});
  SendWhatCreditAllows(lane, now, out);
  return deliveries;
}

void Exchange::OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now,
                        std::vector<Outgoing>* out) {
  LaneState& state = lanes_[lane];
  const bool blank =
      state.server_incarnation != 0 && state.server_incarnation != server_incarnation;
  state.up = true;
  state.server_incarnation = server_incarnation;
  state.unanswered_bytes = 0;
  for (auto& [key, held] : held_) {
    if (blank && held.lane == lane) Offer(key, &held, now, out);
  }
  for (auto& [key, waiting] : waiting_) {
    if (waiting.lane == lane) waiting.sent = false;
  }
  SendWhatCreditAllows(lane, now, out);
}

void Exchange::Offer(const Key& key, Held* held, Time now, std::vector<Outgoing>* out) {
  held->offered = true;
  held->offered_at = now;
  Outgoing outgoing{held->lane, {}};
  *MutableHeldOutcome(key.cell.kind, &outgoing.message.head) = held->outcome;
  outgoing.message.payload = held->payload;
  out->push_back(std::move(outgoing));
}

void Exchange::OnHeldTaken(LaneRef lane, Kind kind, const pb::Outcome& outcome) {
  const auto found =
      held_.find(Key{outcome.round(), Cell{kind, outcome.bucket(), outcome.chunk()}});
  if (found != held_.end() && found->second.lane == lane) found->second.offered = false;
}

void Exchange::OnLaneDown(LaneRef lane) { lanes_[lane].up = false; }

void Exchange::OnFloor(uint64_t floor) {
  if (floor <= floor_) return;
  floor_ = floor;
  while (!held_.empty() && held_.begin()->first.round <= floor_) held_.erase(held_.begin());
}

void Exchange::OnTimer(Time now, std::vector<Outgoing>* out) {
  for (auto& [key, waiting] : waiting_) {
    if (!waiting.sent || !lanes_[waiting.lane].up || now - waiting.sent_at < options_.resend_after)
      continue;
    ++resent_;
    SendWaiting(key, &waiting, now, out);
  }
  for (auto& [key, held] : held_) {
    if (!held.offered || !lanes_[held.lane].up || now - held.offered_at < options_.resend_after)
      continue;
    ++resent_;
    Offer(key, &held, now, out);
  }
}

void Exchange::Restart(uint64_t applied) {
  applied_ = applied;
  waiting_.clear();
  held_.clear();
  for (auto& [lane, state] : lanes_) state.unanswered_bytes = 0;
}

}  // namespace tern::protocol
