#include "common/protocol/rounds/send_queue.h"

#include <algorithm>
#include <iterator>

#include "common/base/invariants.h"

namespace tern::protocol {

namespace {

uint64_t PayloadBytes(const SendQueue::Entry& entry) {
  return PayloadOf(entry.contribution).size();
}

}  // namespace

void SendQueue::Enqueue(const ExchangeKey& key, Entry entry) {
  TERN_REQUIRES(!entries_.contains(key), ToString(key.cell, key.exchange, "exchange"),
                ": contributed twice");
  Drop(key);
  if (key.cell.kind == Kind::kPush) unanswered_bytes_.try_emplace(entry.lane, 0);
  entries_[key] = std::move(entry);
}

const SendQueue::Entry* SendQueue::Find(const ExchangeKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void SendQueue::Become(Item* item, State next) {
  auto& [key, entry] = *item;
  const uint64_t bytes = key.cell.kind == Kind::kPush ? PayloadBytes(entry) : 0;
  if (entry.state == State::kWaiting && next == State::kSent)
    unanswered_bytes_[entry.lane] += bytes;
  if (entry.state == State::kSent && next == State::kWaiting)
    unanswered_bytes_[entry.lane] -= bytes;
  entry.state = next;
}

void SendQueue::Drop(const ExchangeKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Become(&*found, State::kWaiting);
  entries_.erase(found);
}

bool SendQueue::HasContributionsUpTo(uint64_t exchange) const {
  return std::any_of(entries_.begin(), entries_.end(), [exchange](const Item& item) {
    return item.first.exchange <= exchange && !IsPull(item.second.contribution);
  });
}

void SendQueue::DropUpTo(uint64_t exchange) {
  for (auto item = entries_.begin(); item != entries_.end() && item->first.exchange <= exchange;) {
    const auto& [key, entry] = *item++;
    if (!IsPull(entry.contribution)) Drop(ExchangeKey(key));
  }
}

void SendQueue::Clear() {
  entries_.clear();
  unanswered_bytes_.clear();
}

std::vector<const SendQueue::Item*> SendQueue::TakeSendable(LaneRef lane, Time now) {
  std::vector<const Item*> sendable;
  const auto mark_sent = [&](Item* item) {
    Become(item, State::kSent);
    item->second.sent_at = now;
    ChooseWay(item);
    sendable.push_back(item);
  };
  if (const Item* first_push = FirstPush(lane);
      first_push != nullptr && first_push->second.state != State::kSent)
    mark_sent(&*entries_.find(first_push->first));
  for (Item& item : entries_) {
    const auto& [key, entry] = item;
    if (entry.lane != lane || entry.state == State::kSent) continue;
    const bool is_push = key.cell.kind == Kind::kPush;
    if (is_push && unanswered_bytes_[lane] + PayloadBytes(entry) > credit_bytes_) break;
    mark_sent(&item);
  }
  return sendable;
}

void SendQueue::ChooseWay(Item* item) const {
  auto& [key, entry] = *item;
  const bool may_be_added =
      key.cell.kind == Kind::kPush && std::holds_alternative<InRound>(entry.contribution);
  if (has_leader_ && may_be_added && entry.way == Way::kNone) {
    entry.way = Way::kHost;
    return;
  }
  entry.left_host = entry.way == Way::kHost;
  entry.way = Way::kLane;
}

std::set<LaneRef> SendQueue::MarkLostOnHost() {
  std::set<LaneRef> lanes;
  for (Item& item : entries_) {
    if (item.second.state != State::kSent || item.second.way != Way::kHost) continue;
    Become(&item, State::kWaiting);
    lanes.insert(item.second.lane);
  }
  return lanes;
}

const SendQueue::Item* SendQueue::FirstPush(LaneRef lane) const {
  const auto is_push_of_lane = [lane](const Item& item) {
    return item.second.lane == lane && item.first.cell.kind == Kind::kPush;
  };
  const auto oldest_push = std::find_if(entries_.begin(), entries_.end(), is_push_of_lane);
  if (oldest_push == entries_.end()) return nullptr;
  const uint64_t exchange = oldest_push->first.exchange;
  const auto end = entries_.upper_bound(ExchangeKey{exchange, {Kind::kPush, 0, UINT32_MAX}});
  const auto last_push =
      std::find_if(std::make_reverse_iterator(end), entries_.rend(), is_push_of_lane);
  const ExchangeKey first_key{exchange, {Kind::kPush, last_push->first.cell.bucket, 0}};
  return &*std::find_if(entries_.lower_bound(first_key), end, is_push_of_lane);
}

std::vector<const SendQueue::Item*> SendQueue::TakeOverdue(
    Time now, const std::function<bool(LaneRef, Time sent_at)>& is_due) {
  std::vector<const Item*> overdue;
  for (Item& item : entries_) {
    Entry& entry = item.second;
    if (entry.state != State::kSent || !is_due(entry.lane, entry.sent_at)) continue;
    entry.sent_at = now;
    overdue.push_back(&item);
  }
  return overdue;
}

void SendQueue::MarkUnsent(LaneRef lane) {
  for (Item& item : entries_) {
    if (item.second.lane == lane) Become(&item, State::kWaiting);
  }
}

size_t SendQueue::MarkLost(LaneRef lane, Time asked_at, const std::set<ExchangeKey>& counted) {
  size_t num_lost = 0;
  for (Item& item : entries_) {
    const auto& [key, entry] = item;
    if (entry.lane != lane || entry.state != State::kSent || entry.sent_at >= asked_at) continue;
    if (counted.contains(key)) continue;
    Become(&item, State::kWaiting);
    ++num_lost;
  }
  return num_lost;
}

std::optional<Time> SendQueue::OldestSentAt(LaneRef lane) const {
  std::optional<Time> oldest;
  for (const auto& [key, entry] : entries_) {
    if (entry.lane == lane && entry.state == State::kSent)
      oldest = std::min(oldest.value_or(entry.sent_at), entry.sent_at);
  }
  return oldest;
}

uint64_t SendQueue::SentBytes(LaneRef lane) const {
  const auto found = unanswered_bytes_.find(lane);
  return found == unanswered_bytes_.end() ? 0 : found->second;
}

Status SendQueue::CheckEntry(const Item& item, uint64_t applied) const {
  const auto& [key, entry] = item;
  const bool is_pull = IsPull(entry.contribution);
  TERN_HOLDS(is_pull == (entry.pull_number != 0), ToString(key.cell, key.exchange, "exchange"),
             ": asks for ", is_pull ? 1 : 0, " pulls, and its number is ", entry.pull_number);
  TERN_HOLDS(is_pull || key.exchange > applied, ToString(key.cell, key.exchange, "exchange"),
             ": not answered, and applied is ", applied);
  return Ok();
}

Status SendQueue::CheckLane(LaneRef lane, uint64_t counted_bytes, bool is_up) const {
  uint64_t sent_bytes = 0;
  for (const auto& [key, entry] : entries_) {
    const bool is_counted = key.cell.kind == Kind::kPush && entry.state == State::kSent;
    if (is_counted && entry.lane == lane) sent_bytes += PayloadBytes(entry);
  }
  TERN_HOLDS(sent_bytes == counted_bytes, "lane ", lane.shard, ".", lane.lane, ": has ", sent_bytes,
             " bytes unanswered, and counts ", counted_bytes);
  const Item* first_push = is_up ? FirstPush(lane) : nullptr;
  TERN_HOLDS(first_push == nullptr || first_push->second.state == State::kSent,
             ToString(first_push->first.cell, first_push->first.exchange, "exchange"),
             ": the first of its lane, and not sent, with ", sent_bytes, " bytes unanswered");
  return Ok();
}

Status SendQueue::Check(const std::function<bool(LaneRef)>& is_up, uint64_t applied) const {
  for (const Item& item : entries_) TERN_RETURN_IF_ERROR(CheckEntry(item, applied));
  for (const auto& [lane, counted_bytes] : unanswered_bytes_)
    TERN_RETURN_IF_ERROR(CheckLane(lane, counted_bytes, is_up(lane)));
  return Ok();
}

}  // namespace tern::protocol
