// A worker's contributions that are not answered yet, and which of them may be sent. A lane is one
// server socket. An exchange is a round or, in a job without rounds, one of the worker's clocks
// (its own count of exchanges). The states of a contribution:
//
//   Enqueue --> kWaiting --credit, lane up--> kSent --outcome--> (dropped)
//                  ^                          | |   ^ |
//                  +--lane up, room at server-+ |   +-+ control lane silent: sent again
//                  +--a probe's answer: lost----+
//
// A data lane carries much, and its link may be slow, so silence does not show that contributions
// were lost. The worker then asks (a probe, links.h) which ones the server has counted, and sends
// only the others again.
//
// Credit: the unanswered pushes that were sent on a lane have at most `credit_bytes` bytes, except
// that the lane's first unanswered push may always be sent. The first push is that of the oldest
// exchange, in this exchange that of the lowest bucket, and in this bucket that of the lowest
// chunk. This exception prevents a deadlock: workers may get their scalers (codecs' scale factors)
// back in different orders, but all of them push to the first open cell (one reduction over the
// workers). A server holds at most about workers * credit_bytes bytes per lane.
//
// Priority: of the pushes that wait for credit, those of the oldest exchange are sent first. Within
// an exchange the last bucket is first, because it has the model's first tensors, which the next
// forward pass needs first. (A bucket is neighbouring tensors; a chunk is a range of a bucket.)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Names a contribution in the queue. The order of the keys is the order of sending: by exchange,
// then by priority.
struct ExchangeKey {
  // The round or clock; 0 for pulls, so that they are sent first.
  uint64_t exchange = 0;
  Cell cell;
  auto Order() const { return std::tuple(exchange, cell.kind, ~cell.bucket, cell.chunk); }
  auto operator<=>(const ExchangeKey& other) const { return Order() <=> other.Order(); }
};

class SendQueue {
 public:
  enum class State : uint8_t { kWaiting, kSent };
  // Where a contribution was last sent: to its lane, or to the leader of this worker's host, which
  // adds it to those of other workers (exchange.host_sum). Only the first sending may go to the
  // leader, so that what it does not bring to the server gets there all the same.
  enum class Way : uint8_t { kNone, kLane, kHost };
  struct Entry {
    LaneRef lane;
    Contribution contribution;
    uint64_t pull_number = 0;  // the number of a pull; 0 for any other contribution
    State state = State::kWaiting;
    Time sent_at{};
    Way way = Way::kNone;
    bool left_host = false;  // it was sent to the leader before, and then to its lane
  };
  using Item = std::pair<const ExchangeKey, Entry>;

  explicit SendQueue(uint64_t credit_bytes) : credit_bytes_(credit_bytes) {}

  // Adds a waiting contribution. REQUIRES that the key is not in the queue.
  void Enqueue(const ExchangeKey& key, Entry entry);
  // The entry of this key, or null.
  const Entry* Find(const ExchangeKey& key) const;
  void Drop(const ExchangeKey& key);
  // Whether the queue has a contribution of this or an earlier exchange, other than a pull.
  bool HasContributionsUpTo(uint64_t exchange) const;
  // Drops the contributions of this and earlier exchanges, but no pulls.
  void DropUpTo(uint64_t exchange);
  void Clear();
  bool empty() const { return entries_.empty(); }

  // Whether pushes that were not sent yet may go to the leader of the host. At first they may not.
  void set_has_leader(bool has_leader) { has_leader_ = has_leader; }
  // Marks everything that was sent to the leader of the host, and is not answered, as waiting.
  // Returns the lanes of it.
  std::set<LaneRef> MarkLostOnHost();
  // Returns the contributions to send now on a lane that is up, in the order of sending, and marks
  // them as sent. The pointers are valid until the next call of a member function.
  std::vector<const Item*> TakeSendable(LaneRef lane, Time now);
  // Returns the sent contributions for which `is_due` returns true, to send them again.
  std::vector<const Item*> TakeOverdue(Time now,
                                       const std::function<bool(LaneRef, Time sent_at)>& is_due);
  // Marks everything that was sent on the lane as waiting.
  void MarkUnsent(LaneRef lane);
  // Marks what was sent on the lane before `asked_at` as waiting, except what the server has
  // `counted`. Returns how many contributions that are.
  size_t MarkLost(LaneRef lane, Time asked_at, const std::set<ExchangeKey>& counted);
  // When the lane's oldest unanswered contribution was sent; nullopt: none is sent.
  std::optional<Time> OldestSentAt(LaneRef lane) const;
  // The bytes of the lane's pushes that are sent and not answered.
  uint64_t SentBytes(LaneRef lane) const;

  // These invariants hold after every event: the unanswered bytes of a lane are the bytes of its
  // sent pushes; pulls have numbers, and no other contribution has; the first push of a lane is
  // sent if is_up(lane); of exchanges up to `applied` the queue has only pulls.
  Status Check(const std::function<bool(LaneRef)>& is_up, uint64_t applied) const;

 private:
  friend class ExchangePeer;  // for tests
  // Changes an entry's state and, if the entry is a push, the unanswered bytes of its lane.
  void Become(Item* item, State next);
  // Chooses the way of a contribution that is sent now.
  void ChooseWay(Item* item) const;
  // The lane's first unanswered push (see Credit above), or null.
  const Item* FirstPush(LaneRef lane) const;
  Status CheckEntry(const Item& item, uint64_t applied) const;
  Status CheckLane(LaneRef lane, uint64_t counted_bytes, bool is_up) const;

  uint64_t credit_bytes_;
  bool has_leader_ = false;
  std::map<ExchangeKey, Entry> entries_;
  std::map<LaneRef, uint64_t> unanswered_bytes_;  // by lane: the bytes of its sent pushes
};

}  // namespace tern::protocol
