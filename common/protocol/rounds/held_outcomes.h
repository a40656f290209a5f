// The answers that a worker retains for others. What one goes through:
//
//            a server comes back without it
//   kKept ----------------------------------> kOffered --+ its lane has been silent:
//     ^                                        |  ^      | offered again
//     +-------the server confirms it-----------+  +------+
//
// An outcome of a round is dropped when the floor reaches the round. Without rounds, of each cell
// the clock of the newest answer to a push is retained, and whether this worker has left
// (`parted`): a restarted server may not know it, and would let others wait for this worker for
// ever.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/send_queue.h"

namespace tern::protocol {

class HeldOutcomes {
 public:
  enum class State : uint8_t { kKept, kOffered };
  struct Held {
    LaneRef lane;
    pb::Outcome outcome;
    Bytes payload;
    State state = State::kKept;
    Time offered_at{};
  };
  using Item = std::pair<const ExchangeKey, Held>;

  // An outcome of a round; ignored if the floor has reached it.
  void Hold(const ExchangeKey& key, LaneRef lane, const pb::Outcome& outcome, Bytes payload);
  // The clock of an answer to a push replaces the one before.
  void HoldClock(const ExchangeKey& key, LaneRef lane, bool parted);
  bool Has(const ExchangeKey& key) const { return held_.contains(key); }
  void OnFloor(uint64_t floor);
  // The server has what was offered to it.
  void OnTaken(const ExchangeKey& key, LaneRef lane);
  // The State after `applied` is installed: nothing is retained, and the floor is not beyond it.
  void Restart(uint64_t applied);

  // What to offer on a lane that comes up: all, or the clocks alone. Valid until the next call.
  std::vector<const Item*> Offer(LaneRef lane, bool clocks_alone, Time now);
  // What to offer again: those for which `due` holds.
  std::vector<const Item*> Again(Time now,
                                 const std::function<bool(LaneRef, Time offered_at)>& due);

  uint64_t floor() const { return floor_; }
  size_t size() const { return held_.size(); }
  // The newest round of which an outcome of this lane is retained; 0: none.
  uint64_t newest(LaneRef lane) const;

  // Holds after every event: what is retained lies beyond the floor, under its own exchange and
  // cell; the newest clock of a cell is retained.
  Status Check() const;

 private:
  friend class ExchangePeer;  // of the tests

  uint64_t floor_ = 0;
  std::map<ExchangeKey, Held> held_;
  std::map<Cell, uint64_t> clocks_;  // of the newest answers to pushes
};

}  // namespace tern::protocol
