#include "common/protocol/rounds/exchange.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tern::protocol {

namespace {

// Servers keep fewer rounds beyond the floor: whoever says more is none of ours.
constexpr uint64_t kMostAhead = 64;

}  // namespace

void Exchange::Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest,
                          Bytes payload, Time now, std::vector<Outgoing>* out,
                          const Request& request) {
  const Key key{round, cell};
  if (options_.unsolicited && !request.pull_only && (round <= applied_ || held_.contains(key))) {
    if (!request.skip) OnLate(key, lane, out);
    return;
  }
  Drop(key);  // a pull takes the place of one that is not answered
  Waiting& waiting = waiting_[key];
  waiting.request = request;
  if (request.pull_only) waiting.pull = ++pulls_;
  waiting.lane = lane;
  waiting.digest = digest;
  waiting.payload = std::move(payload);
  SendWhatCreditAllows(lane, now, out);
}

void Exchange::OnLate(const Key& key, LaneRef lane, std::vector<Outgoing>* out) {
  CountLate(key);
  if (!lanes_[lane].up) return;
  Outgoing outgoing{lane, MakeContribution(key)};
  MutableContribution(key.cell.kind, &outgoing.message.head)->set_late(true);
  out->push_back(std::move(outgoing));
}

void Exchange::CountLate(const Key& key) {
  if (key.cell.kind != Kind::kPush || key.round <= newest_late_) return;
  newest_late_ = key.round;
  ++late_;
}

Message Exchange::MakeContribution(const Key& key) const {
  Message message;
  pb::Contribution* c = MutableContribution(key.cell.kind, &message.head);
  c->set_round(key.round);
  c->set_bucket(key.cell.bucket);
  c->set_chunk(key.cell.chunk);
  c->set_rank(options_.rank);
  c->set_incarnation(options_.incarnation);
  c->set_applied(applied_);
  return message;
}

void Exchange::SendWaiting(const Key& key, Waiting* waiting, Time now, std::vector<Outgoing>* out) {
  if (!waiting->sent && key.cell.kind == Kind::kPush)
    lanes_[waiting->lane].unanswered_bytes += waiting->payload.size();
  waiting->sent = true;
  waiting->sent_at = now;
  Outgoing outgoing{waiting->lane, MakeContribution(key)};
  pb::Contribution* c = MutableContribution(key.cell.kind, &outgoing.message.head);
  if (waiting->digest != 0) c->set_digest(waiting->digest);
  AddRequest(key.cell, *waiting, c);
  outgoing.message.payload = waiting->payload;
  out->push_back(std::move(outgoing));
}

void Exchange::AddRequest(const Cell& cell, const Waiting& waiting, pb::Contribution* c) const {
  const Request& request = waiting.request;
  if (request.skip) c->set_skip(true);
  if (request.pull_only) {
    c->set_pull_only(true);
    c->set_round(waiting.pull);
  }
  if (request.push_only) c->set_push_only(true);
  if (request.average) c->set_average(true);
  const auto version = versions_.find(cell);
  if (version != versions_.end()) c->set_version(version->second.version);
}

void Exchange::SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out) {
  LaneState& state = lanes_[lane];
  if (!state.up) return;
  if (auto* first = FirstPush(lane); first != nullptr && !first->second.sent)
    SendWaiting(first->first, &first->second, now, out);
  for (auto& [key, waiting] : waiting_) {
    if (waiting.lane != lane || waiting.sent) continue;
    const bool push = key.cell.kind == Kind::kPush;
    if (push && state.unanswered_bytes + waiting.payload.size() > options_.credit_bytes) return;
    SendWaiting(key, &waiting, now, out);
  }
}

std::pair<const Exchange::Key, Exchange::Waiting>* Exchange::FirstPush(LaneRef lane) {
  const auto wanted = [lane](const auto& one) {
    return one.second.lane == lane && one.first.cell.kind == Kind::kPush;
  };
  const auto oldest = std::find_if(waiting_.begin(), waiting_.end(), wanted);
  if (oldest == waiting_.end()) return nullptr;
  const uint64_t round = oldest->first.round;
  const auto end = waiting_.upper_bound(Key{round, {Kind::kPush, 0, UINT32_MAX}});
  const auto last = std::find_if(std::make_reverse_iterator(end), waiting_.rend(), wanted);
  const Key first{round, {Kind::kPush, last->first.cell.bucket, 0}};
  return &*std::find_if(waiting_.lower_bound(first), end, wanted);
}

std::vector<Exchange::Delivery> Exchange::OnOutcome(LaneRef lane, Kind kind,
                                                    const pb::Outcome& outcome,
                                                    const Bytes& payload, Time now,
                                                    std::vector<Outgoing>* out) {
  std::vector<Delivery> deliveries;
  lanes_[lane].heard_at = now;
  OnFloor(outcome.floor());
  // A pull is known by its cell alone; its answer names the clock that the server has counted.
  const Key key{outcome.pulled() ? 0 : outcome.round(),
                Cell{kind, outcome.bucket(), outcome.chunk()}};
  if (const auto found = waiting_.find(key); found != waiting_.end()) {
    const Waiting& waiting = found->second;
    if (!Answers(outcome, lane, waiting)) return deliveries;
    const bool in_rounds = !outcome.has_total() && !outcome.pulled();
    if (in_rounds && options_.unsolicited && !waiting.request.skip &&
        !IsIn(outcome.who(), options_.rank))
      CountLate(key);
    Drop(key);
  } else if (outcome.has_total() || !Wants(key, lane)) {
    return deliveries;
  }
  if (outcome.has_version() && !outcome.average()) versions_[key.cell] = {lane, outcome.version()};
  // Without rounds a server restores no weights from its workers.
  const bool has_rounds = !outcome.has_total() && !outcome.pulled();
  if (has_rounds && outcome.round() > floor_) held_[key] = Held{lane, outcome, payload, false, {}};
  if (outcome.has_total() && !outcome.pulled()) HoldClock(key, lane, outcome.parted());
  deliveries.push_back({key.cell, outcome, payload});
  SendWhatCreditAllows(lane, now, out);
  return deliveries;
}

bool Exchange::Answers(const pb::Outcome& outcome, LaneRef lane, const Waiting& waiting) {
  return waiting.lane == lane && outcome.pulled() == waiting.request.pull_only &&
         (!outcome.pulled() || outcome.pull() == waiting.pull);
}

bool Exchange::Wants(const Key& key, LaneRef lane) const {
  return options_.unsolicited && key.cell.kind != Kind::kFigures && key.round > applied_ &&
         key.round <= applied_ + kMostAhead && !held_.contains(key) &&
         (!options_.in_plan || options_.in_plan(key.cell, lane));
}

void Exchange::HoldClock(const Key& key, LaneRef lane, bool parted) {
  uint64_t& clock = clocks_[key.cell];
  held_.erase({clock, key.cell});
  clock = key.round;
  Held& held = held_[key] = Held{lane, {}, {}, false, {}};
  held.outcome.set_round(key.round);
  held.outcome.set_bucket(key.cell.bucket);
  held.outcome.set_chunk(key.cell.chunk);
  if (parted) held.outcome.set_parted(true);
}

uint64_t Exchange::newest_held(LaneRef lane) const {
  for (auto one = held_.rbegin(); one != held_.rend(); ++one) {
    if (one->second.lane == lane) return one->first.round;
  }
  return 0;
}

void Exchange::OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now,
                        std::vector<Outgoing>* out) {
  LaneState& state = lanes_[lane];
  // (Or not known: outcomes may come before the first Welcome does.)
  const bool blank = state.server_incarnation != server_incarnation;
  state.up = true;
  state.server_incarnation = server_incarnation;
  if (blank) std::erase_if(versions_, [&](const auto& one) { return one.second.lane == lane; });
  // To the server another incarnation is one that has not parted, whatever it was before.
  const bool reborn = std::exchange(state.told_as, options_.incarnation) != options_.incarnation;
  for (auto& [key, held] : held_) {
    const auto clock = clocks_.find(key.cell);
    const bool is_clock = clock != clocks_.end() && clock->second == key.round;
    if (held.lane == lane && (blank || (reborn && is_clock))) Offer(key, &held, now, out);
  }
  OnRoomAgain(lane, now, out);
}

void Exchange::OnRoomAgain(LaneRef lane, Time now, std::vector<Outgoing>* out) {
  lanes_[lane].unanswered_bytes = 0;
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
    const LaneState& lane = lanes_[waiting.lane];
    const Time since = std::max(waiting.sent_at, lane.heard_at);
    if (!waiting.sent || !lane.up || now - since < options_.resend_after) continue;
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

void Exchange::SetApplied(uint64_t applied) {
  applied_ = applied;
  if (!options_.unsolicited) return;
  for (auto one = waiting_.begin(); one != waiting_.end() && one->first.round <= applied_;) {
    const Key key = (one++)->first;
    if (!waiting_[key].request.pull_only) Drop(key);
  }
}

void Exchange::Drop(const Key& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  const Waiting& waiting = found->second;
  if (waiting.sent && key.cell.kind == Kind::kPush)
    lanes_[waiting.lane].unanswered_bytes -= waiting.payload.size();
  waiting_.erase(found);
}

void Exchange::Restart(uint64_t applied) {
  applied_ = applied;
  floor_ = std::min(floor_, applied);
  waiting_.clear();
  held_.clear();
  clocks_.clear();
  versions_.clear();
  for (auto& [lane, state] : lanes_) state.unanswered_bytes = 0;
}

}  // namespace tern::protocol
