// A worker's contributions that are not answered yet, and which of them may be sent. What one goes
// through:
//
//   Put --> kWaiting --credit, lane up--> kSent --outcome--> (dropped)
//              ^                          |   ^ |
//              +-----its lane comes up----+   +-+ its lane has been silent: sent again
//
// Credit: the bytes of unanswered pushes on a lane are at most `credit_bytes`, except that the
// first of them in plan order may always be sent. So all workers push to the first open cell,
// although scalers do not come back to all of them in the same order; a server holds at most about
// workers * credit bytes per lane.
//
// Priority: of the pushes that wait for credit, those of older exchanges go first, and in one those
// of the last bucket, which has the first tensors: the next forward needs their layers first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Order of sending: by exchange, then by priority.
struct ExchangeKey {
  uint64_t exchange = 0;  // as ExchangeOf() says; so pulls come first
  Cell cell;
  auto Order() const { return std::tuple(exchange, cell.kind, ~cell.bucket, cell.chunk); }
  auto operator<=>(const ExchangeKey& other) const { return Order() <=> other.Order(); }
};

class SendQueue {
 public:
  enum class State : uint8_t { kWaiting, kSent };
  struct Entry {
    LaneRef lane;
    Contribution contribution;
    uint64_t pull = 0;  // the number of a pull
    State state = State::kWaiting;
    Time sent_at{};
  };
  using Item = std::pair<const ExchangeKey, Entry>;

  explicit SendQueue(uint64_t credit_bytes) : credit_bytes_(credit_bytes) {}

  // REQUIRES that nothing of this key is here.
  void Put(const ExchangeKey& key, Entry entry);
  // The entry of this key, or null.
  const Entry* Find(const ExchangeKey& key) const;
  void Drop(const ExchangeKey& key);
  // Whether something of the exchanges up to this one is here, but for pulls.
  bool HasUpTo(uint64_t exchange) const;
  // Drops that.
  void DropUpTo(uint64_t exchange);
  void Clear();
  bool empty() const { return entries_.empty(); }

  // What to send on a lane that is up, in this order; it counts as sent. Valid until the next call.
  std::vector<const Item*> Next(LaneRef lane, Time now);
  // What to send again, of those sent: those for which `due` holds.
  std::vector<const Item*> Again(Time now, const std::function<bool(LaneRef, Time sent_at)>& due);
  // Whatever was sent on the lane waits again.
  void Unsend(LaneRef lane);

  // Holds after every event: the unanswered bytes of a lane are those of its sent pushes; pulls,
  // and nothing else, have numbers. Of a lane that is up (as `up` says) the first push has been
  // sent. Of exchanges up to `applied` nothing is here but pulls.
  Status Check(const std::function<bool(LaneRef)>& up, uint64_t applied) const;

 private:
  friend class ExchangePeer;  // of the tests
  // The only way from state to state; keeps the account of credit.
  void Become(Item* item, State next);
  // The lane's first unanswered push in plan order, or null.
  const Item* FirstPush(LaneRef lane) const;
  Status CheckEntry(const Item& item, uint64_t applied) const;
  Status CheckLane(LaneRef lane, uint64_t counted, bool up) const;

  uint64_t credit_bytes_;
  std::map<ExchangeKey, Entry> entries_;
  std::map<LaneRef, uint64_t> unanswered_bytes_;  // of sent pushes, by lane that had any
};

}  // namespace tern::protocol
