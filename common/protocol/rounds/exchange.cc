#include "common/protocol/rounds/exchange.h"

#include <algorithm>
#include <utility>

#include "common/base/invariants.h"

namespace tern::protocol {

namespace {

// Servers keep fewer rounds beyond the floor: whoever says more is none of ours.
constexpr uint64_t kMostAhead = 64;

// Whether the outcome answers a waiting contribution to its cell and round.
bool Answers(const pb::Outcome& outcome, LaneRef lane, const SendQueue::Entry& waiting) {
  return waiting.lane == lane && outcome.pulled() == waiting.request.pull_only &&
         (!outcome.pulled() || outcome.pull() == waiting.pull);
}

void AddRequest(const SendQueue::Entry& entry, pb::Contribution* c) {
  const Request& request = entry.request;
  if (entry.digest != 0) c->set_digest(entry.digest);
  if (request.skip) c->set_skip(true);
  if (request.pull_only) {
    c->set_pull_only(true);
    c->set_round(entry.pull);
  }
  if (request.push_only) c->set_push_only(true);
  if (request.average) c->set_average(true);
}

}  // namespace

void Exchange::Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest,
                          Bytes payload, Time now, std::vector<Outgoing>* out,
                          const Request& request) {
  const CheckedAfter checked(*this);
  const Key key{round, cell};
  if (options_.unsolicited && !request.pull_only && (round <= applied_ || held_.Has(key))) {
    if (!request.skip) OnLate(key, lane, out);
    return;
  }
  if (request.pull_only) queue_.Drop(key);  // it takes the place of one that is not answered
  SendQueue::Entry entry;
  entry.request = request;
  if (request.pull_only) entry.pull = ++pulls_;
  entry.lane = lane;
  entry.digest = digest;
  entry.payload = std::move(payload);
  queue_.Put(key, std::move(entry));
  SendWhatCreditAllows(lane, now, out);
}

void Exchange::OnLate(const Key& key, LaneRef lane, std::vector<Outgoing>* out) {
  late_.Count(key);
  if (!IsUp(lane)) return;
  Outgoing outgoing{lane, MakeContribution(key)};
  MutableContribution(key.cell.kind, &outgoing.message.head)->set_late(true);
  out->push_back(std::move(outgoing));
}

void Exchange::Late::Count(const Key& key) {
  if (key.cell.kind != Kind::kPush || key.round <= newest) return;
  newest = key.round;
  ++rounds;
}

bool Exchange::IsUp(LaneRef lane) const {
  const auto found = lanes_.find(lane);
  return found != lanes_.end() && found->second.up;
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

void Exchange::Send(const std::vector<const SendQueue::Item*>& items,
                    std::vector<Outgoing>* out) const {
  for (const SendQueue::Item* item : items) {
    const auto& [key, entry] = *item;
    Outgoing outgoing{entry.lane, MakeContribution(key)};
    pb::Contribution* c = MutableContribution(key.cell.kind, &outgoing.message.head);
    AddRequest(entry, c);
    const auto version = versions_.find(key.cell);
    if (version != versions_.end()) c->set_version(version->second.version);
    outgoing.message.payload = entry.payload;
    out->push_back(std::move(outgoing));
  }
}

void Exchange::Send(const std::vector<const HeldOutcomes::Item*>& items,
                    std::vector<Outgoing>* out) {
  for (const HeldOutcomes::Item* item : items) {
    const auto& [key, held] = *item;
    Outgoing outgoing{held.lane, {}};
    *MutableHeldOutcome(key.cell.kind, &outgoing.message.head) = held.outcome;
    outgoing.message.payload = held.payload;
    out->push_back(std::move(outgoing));
  }
}

void Exchange::SendWhatCreditAllows(LaneRef lane, Time now, std::vector<Outgoing>* out) {
  if (IsUp(lane)) Send(queue_.Next(lane, now), out);
}

std::vector<Exchange::Delivery> Exchange::OnOutcome(LaneRef lane, Kind kind,
                                                    const pb::Outcome& outcome,
                                                    const Bytes& payload, Time now,
                                                    std::vector<Outgoing>* out) {
  const CheckedAfter checked(*this);
  std::vector<Delivery> deliveries;
  lanes_[lane].heard_at = now;
  OnFloor(outcome.floor());
  // A pull is known by its cell alone; its answer names the clock that the server has counted.
  const Key key{outcome.pulled() ? 0 : outcome.round(),
                Cell{kind, outcome.bucket(), outcome.chunk()}};
  // Without rounds a server restores no weights from its workers.
  const bool in_rounds = !outcome.has_total() && !outcome.pulled();
  if (const SendQueue::Entry* waiting = queue_.Find(key); waiting != nullptr) {
    if (!Answers(outcome, lane, *waiting)) return deliveries;
    const bool skips = waiting->request.skip;
    if (in_rounds && options_.unsolicited && !skips && !IsIn(outcome.who(), options_.rank))
      late_.Count(key);
    queue_.Drop(key);
  } else if (outcome.has_total() || !Wants(key, lane)) {
    return deliveries;
  }
  if (outcome.has_version() && !outcome.average()) versions_[key.cell] = {lane, outcome.version()};
  if (in_rounds) held_.Hold(key, lane, outcome, payload);
  if (outcome.has_total() && !outcome.pulled()) held_.HoldClock(key, lane, outcome.parted());
  deliveries.push_back({key.cell, outcome, payload});
  SendWhatCreditAllows(lane, now, out);
  return deliveries;
}

bool Exchange::Wants(const Key& key, LaneRef lane) const {
  return options_.unsolicited && key.cell.kind != Kind::kFigures && key.round > applied_ &&
         key.round <= applied_ + kMostAhead && !held_.Has(key) &&
         (!options_.in_plan || options_.in_plan(key.cell, lane));
}

void Exchange::OnLaneUp(LaneRef lane, uint64_t server_incarnation, Time now,
                        std::vector<Outgoing>* out) {
  const CheckedAfter checked(*this);
  LaneState& state = lanes_[lane];
  // (Or not known: outcomes may come before the first Welcome does.)
  const bool blank = state.server_incarnation != server_incarnation;
  state.up = true;
  state.server_incarnation = server_incarnation;
  if (blank) std::erase_if(versions_, [&](const auto& one) { return one.second.lane == lane; });
  // To the server another incarnation is one that has not parted, whatever it was before.
  const bool reborn = std::exchange(state.told_as, options_.incarnation) != options_.incarnation;
  if (blank || reborn) Send(held_.Offer(lane, /*clocks_alone=*/!blank, now), out);
  OnRoomAgain(lane, now, out);
}

void Exchange::OnRoomAgain(LaneRef lane, Time now, std::vector<Outgoing>* out) {
  const CheckedAfter checked(*this);
  queue_.Unsend(lane);
  SendWhatCreditAllows(lane, now, out);
}

void Exchange::OnHeldTaken(LaneRef lane, Kind kind, const pb::Outcome& outcome) {
  const CheckedAfter checked(*this);
  held_.OnTaken(Key{outcome.round(), Cell{kind, outcome.bucket(), outcome.chunk()}}, lane);
}

void Exchange::OnLaneDown(LaneRef lane) { lanes_[lane].up = false; }

void Exchange::OnTimer(Time now, std::vector<Outgoing>* out) {
  const CheckedAfter checked(*this);
  const size_t before = out->size();
  Send(queue_.Again(now,
                    [&](LaneRef name, Time sent_at) {
                      const LaneState& lane = lanes_[name];
                      const Time since = std::max(sent_at, lane.heard_at);
                      return lane.up && now - since >= options_.resend_after;
                    }),
       out);
  Send(held_.Again(now,
                   [&](LaneRef lane, Time offered_at) {
                     return IsUp(lane) && now - offered_at >= options_.resend_after;
                   }),
       out);
  resent_ += out->size() - before;
}

void Exchange::SetApplied(uint64_t applied) {
  const CheckedAfter checked(*this);
  TERN_REQUIRES(options_.unsolicited || !queue_.HasUpTo(applied), "exchange: applied ", applied,
                ", and not all answers of these rounds were delivered");
  applied_ = applied;
  if (options_.unsolicited) queue_.DropUpTo(applied_);
}

void Exchange::Restart(uint64_t applied) {
  const CheckedAfter checked(*this);
  applied_ = applied;
  queue_.Clear();
  held_.Restart(applied);
  versions_.clear();
}

Status Exchange::Check() const {
  TERN_HOLDS(late_.rounds <= late_.newest, "exchange: ", late_.rounds,
             " rounds were late, and the newest is ", late_.newest);
  const auto is_up = [this](LaneRef lane) { return IsUp(lane); };
  TERN_RETURN_IF_ERROR(queue_.Check(is_up, options_.unsolicited ? applied_ : 0));
  return held_.Check();
}

}  // namespace tern::protocol
