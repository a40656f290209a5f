// The outcomes (answers to contributions) that a worker keeps, so that it can hand them back to a
// server that restarts and has lost them. The states of an outcome:
//
//            its server has restarted
//   kKept ----------------------------------> kOffered --+ not confirmed in time:
//     ^                                        |  ^      | offered again
//     +-----the server confirms the outcome----+  +------+
//
// The floor is the newest round that all members have applied; outcomes of rounds up to the floor
// are dropped. A cell is one reduction over the workers; a lane is one server socket. In a job
// without rounds the worker keeps for each cell only the clock (the worker's count of exchanges) of
// the cell's newest answer, and whether the worker has parted (pushes no more). Without these
// clocks, a restarted server would make other workers wait for this worker for ever. The worker
// also offers the clocks when it says hello as a new member.
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
  struct HeldOutcome {
    LaneRef lane;
    pb::Outcome outcome;
    Bytes payload;
    State state = State::kKept;
    Time offered_at{};
  };
  using Item = std::pair<const ExchangeKey, HeldOutcome>;

  // Keeps an outcome of a round if the round is beyond the floor.
  void KeepOutcome(const ExchangeKey& key, LaneRef lane, const pb::Outcome& outcome, Bytes payload);
  // In a job without rounds: keeps the clock of the newest answer of a cell in place of the cell's
  // previous clock. `has_parted`: the answer is to this worker's Parting (it pushes no more).
  void KeepClock(const ExchangeKey& key, LaneRef lane, bool has_parted);
  bool Has(const ExchangeKey& key) const { return held_.contains(key); }
  void OnFloor(uint64_t floor);
  // The server confirms an outcome that was offered to it.
  void OnConfirmed(const ExchangeKey& key, LaneRef lane);
  // The worker installs the state after round `applied`: drops everything; the floor becomes at
  // most `applied`.
  void OnStateInstalled(uint64_t applied);

  // Returns the outcomes to offer on a lane that comes up: all outcomes of this lane, or, with
  // `only_clocks`, only those that have the newest clock of a cell. The pointers are valid until
  // the next call of a member function.
  std::vector<const Item*> OfferOutcomes(LaneRef lane, bool only_clocks, Time now);
  // Returns the offered outcomes for which `is_due` returns true, to offer them again.
  std::vector<const Item*> OfferOverdueAgain(
      Time now, const std::function<bool(LaneRef, Time offered_at)>& is_due);

  uint64_t floor() const { return floor_; }
  size_t size() const { return held_.size(); }
  // The newest round of which an outcome of this lane is kept; 0: none.
  uint64_t newest_round(LaneRef lane) const;

  // These invariants hold after every event: every kept outcome is of a round beyond the floor; its
  // key has the round and the cell that the outcome names; for each cell the newest clock is kept.
  Status Check() const;

 private:
  friend class ExchangePeer;  // for tests

  uint64_t floor_ = 0;
  std::map<ExchangeKey, HeldOutcome> held_;
  std::map<Cell, uint64_t> clocks_;  // by cell: the clock of the newest answer
};

}  // namespace tern::protocol
