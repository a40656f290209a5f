#include "common/protocol/rounds/held_outcomes.h"

#include <algorithm>

#include "common/base/invariants.h"

namespace tern::protocol {

void HeldOutcomes::KeepOutcome(const ExchangeKey& key, LaneRef lane, const pb::Outcome& outcome,
                               Bytes payload) {
  if (key.exchange > floor_)
    held_[key] = HeldOutcome{lane, outcome, std::move(payload), State::kKept, {}};
}

void HeldOutcomes::KeepClock(const ExchangeKey& key, LaneRef lane, bool has_parted) {
  uint64_t& clock = clocks_[key.cell];
  held_.erase({clock, key.cell});
  clock = key.exchange;
  HeldOutcome& held = held_[key] = HeldOutcome{lane, {}, {}, State::kKept, {}};
  held.outcome.set_bucket(key.cell.bucket);
  held.outcome.set_chunk(key.cell.chunk);
  if (has_parted) {
    held.outcome.mutable_parted()->set_clock(key.exchange);
  } else {
    held.outcome.mutable_at_clock()->set_clock(key.exchange);
  }
}

void HeldOutcomes::OnFloor(uint64_t floor) {
  if (floor <= floor_) return;
  floor_ = floor;
  while (!held_.empty() && held_.begin()->first.exchange <= floor_) held_.erase(held_.begin());
}

void HeldOutcomes::OnConfirmed(const ExchangeKey& key, LaneRef lane) {
  const auto found = held_.find(key);
  if (found != held_.end() && found->second.lane == lane) found->second.state = State::kKept;
}

void HeldOutcomes::OnStateInstalled(uint64_t applied) {
  floor_ = std::min(floor_, applied);
  held_.clear();
  clocks_.clear();
}

std::vector<const HeldOutcomes::Item*> HeldOutcomes::OfferOutcomes(LaneRef lane, bool only_clocks,
                                                                   Time now) {
  std::vector<const Item*> items_to_offer;
  for (Item& item : held_) {
    auto& [key, held] = item;
    const auto clock = clocks_.find(key.cell);
    const bool is_clock = clock != clocks_.end() && clock->second == key.exchange;
    if (held.lane != lane || (only_clocks && !is_clock)) continue;
    held.state = State::kOffered;
    held.offered_at = now;
    items_to_offer.push_back(&item);
  }
  return items_to_offer;
}

std::vector<const HeldOutcomes::Item*> HeldOutcomes::OfferOverdueAgain(
    Time now, const std::function<bool(LaneRef, Time offered_at)>& is_due) {
  std::vector<const Item*> items_to_offer;
  for (Item& item : held_) {
    HeldOutcome& held = item.second;
    if (held.state != State::kOffered || !is_due(held.lane, held.offered_at)) continue;
    held.offered_at = now;
    items_to_offer.push_back(&item);
  }
  return items_to_offer;
}

uint64_t HeldOutcomes::newest_round(LaneRef lane) const {
  for (auto item = held_.rbegin(); item != held_.rend(); ++item) {
    if (item->second.lane == lane) return item->first.exchange;
  }
  return 0;
}

Status HeldOutcomes::Check() const {
  for (const auto& [key, held] : held_) {
    TERN_HOLDS(key.exchange > floor_, ToString(key.cell, key.exchange, "exchange"),
               ": retained, and the floor is ", floor_);
    const pb::Outcome& outcome = held.outcome;
    TERN_HOLDS(ExchangeOf(outcome) == key.exchange, ToString(key.cell, key.exchange, "exchange"),
               ": retains an outcome of exchange ", ExchangeOf(outcome));
    TERN_HOLDS(outcome.bucket() == key.cell.bucket && outcome.chunk() == key.cell.chunk,
               ToString(key.cell, key.exchange, "exchange"), ": retains an outcome of bucket ",
               outcome.bucket(), ", chunk ", outcome.chunk());
  }
  for (const auto& [cell, clock] : clocks_) {
    TERN_HOLDS(clock <= floor_ || held_.contains({clock, cell}), ToString(cell, clock, "clock"),
               ": the newest clock is not retained, and the floor is ", floor_);
  }
  return Ok();
}

}  // namespace tern::protocol
