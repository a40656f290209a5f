#include "common/protocol/rounds/send_queue.h"

#include <algorithm>
#include <iterator>

#include "common/base/invariants.h"

namespace tern::protocol {

namespace {

uint64_t SizeOf(const SendQueue::Entry& entry) { return PayloadOf(entry.contribution).size(); }

}  // namespace

void SendQueue::Put(const ExchangeKey& key, Entry entry) {
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
  const uint64_t bytes = key.cell.kind == Kind::kPush ? SizeOf(entry) : 0;
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

bool SendQueue::HasUpTo(uint64_t exchange) const {
  return std::any_of(entries_.begin(), entries_.end(), [exchange](const Item& item) {
    return item.first.exchange <= exchange && !IsPull(item.second.contribution);
  });
}

void SendQueue::DropUpTo(uint64_t exchange) {
  for (auto one = entries_.begin(); one != entries_.end() && one->first.exchange <= exchange;) {
    const auto& [key, entry] = *one++;
    if (!IsPull(entry.contribution)) Drop(ExchangeKey(key));
  }
}

void SendQueue::Clear() {
  entries_.clear();
  unanswered_bytes_.clear();
}

std::vector<const SendQueue::Item*> SendQueue::TakeSendable(LaneRef lane, Time now) {
  std::vector<const Item*> next;
  const auto send = [&](Item* item) {
    Become(item, State::kSent);
    item->second.sent_at = now;
    next.push_back(item);
  };
  if (const Item* first = FirstPush(lane); first != nullptr && first->second.state != State::kSent)
    send(&*entries_.find(first->first));
  for (Item& item : entries_) {
    const auto& [key, entry] = item;
    if (entry.lane != lane || entry.state == State::kSent) continue;
    const bool push = key.cell.kind == Kind::kPush;
    if (push && unanswered_bytes_[lane] + SizeOf(entry) > credit_bytes_) break;
    send(&item);
  }
  return next;
}

const SendQueue::Item* SendQueue::FirstPush(LaneRef lane) const {
  const auto is_push_of_lane = [lane](const Item& one) {
    return one.second.lane == lane && one.first.cell.kind == Kind::kPush;
  };
  const auto oldest = std::find_if(entries_.begin(), entries_.end(), is_push_of_lane);
  if (oldest == entries_.end()) return nullptr;
  const uint64_t exchange = oldest->first.exchange;
  const auto end = entries_.upper_bound(ExchangeKey{exchange, {Kind::kPush, 0, UINT32_MAX}});
  const auto last = std::find_if(std::make_reverse_iterator(end), entries_.rend(), is_push_of_lane);
  const ExchangeKey first{exchange, {Kind::kPush, last->first.cell.bucket, 0}};
  return &*std::find_if(entries_.lower_bound(first), end, is_push_of_lane);
}

std::vector<const SendQueue::Item*> SendQueue::TakeOverdue(
    Time now, const std::function<bool(LaneRef, Time sent_at)>& due) {
  std::vector<const Item*> again;
  for (Item& item : entries_) {
    Entry& entry = item.second;
    if (entry.state != State::kSent || !due(entry.lane, entry.sent_at)) continue;
    entry.sent_at = now;
    again.push_back(&item);
  }
  return again;
}

void SendQueue::Unsend(LaneRef lane) {
  for (Item& item : entries_) {
    if (item.second.lane == lane) Become(&item, State::kWaiting);
  }
}

Status SendQueue::CheckEntry(const Item& item, uint64_t applied) const {
  const auto& [key, entry] = item;
  const bool pull = IsPull(entry.contribution);
  TERN_HOLDS(pull == (entry.pull != 0), ToString(key.cell, key.exchange, "exchange"), ": asks for ",
             pull ? 1 : 0, " pulls, and its number is ", entry.pull);
  TERN_HOLDS(pull || key.exchange > applied, ToString(key.cell, key.exchange, "exchange"),
             ": not answered, and applied is ", applied);
  return Ok();
}

Status SendQueue::CheckLane(LaneRef lane, uint64_t counted, bool up) const {
  uint64_t sent = 0;
  for (const auto& [key, entry] : entries_) {
    const bool counts = key.cell.kind == Kind::kPush && entry.state == State::kSent;
    if (counts && entry.lane == lane) sent += SizeOf(entry);
  }
  TERN_HOLDS(sent == counted, "lane ", lane.shard, ".", lane.lane, ": has ", sent,
             " bytes unanswered, and counts ", counted);
  const Item* first = up ? FirstPush(lane) : nullptr;
  TERN_HOLDS(first == nullptr || first->second.state == State::kSent,
             ToString(first->first.cell, first->first.exchange, "exchange"),
             ": the first of its lane, and not sent, with ", sent, " bytes unanswered");
  return Ok();
}

Status SendQueue::Check(const std::function<bool(LaneRef)>& up, uint64_t applied) const {
  for (const Item& item : entries_) TERN_RETURN_IF_ERROR(CheckEntry(item, applied));
  for (const auto& [lane, counted] : unanswered_bytes_)
    TERN_RETURN_IF_ERROR(CheckLane(lane, counted, up(lane)));
  return Ok();
}

}  // namespace tern::protocol
