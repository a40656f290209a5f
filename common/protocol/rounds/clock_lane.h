// A data lane of a server (the state machine behind one data socket) in a job without rounds (asgd,
// dcasgd, ssp, softsync, asynchronous easgd). A cell of the lane has the weights of one chunk of
// the model, and handles a push when it arrives (ClockCell::Push). A clock is the sending worker's
// own count of exchanges, from 1. One thread calls a lane.
//
//   push(rank, clock) --once per (cell, rank, clock)--> ClockCell::Push --> answer: ClockCell::Pull
//
// Repeated pushes: a push with the newest clock of its rank is answered again but not counted
// again. An older one is refused as stale; if another process has taken the rank since, the sender
// is told to leave. Clocks may skip numbers, because a returning worker continues at the newest
// clock that any cell has counted for it.
//
// ssp (stale synchronous parallel): the answer to a push is delayed while the clock of some member
// is more than ClockLaneOptions::max_clocks_ahead behind the push. A rank delays no other worker if
// it is no member, or if it has sent Parting, which says that it pushes no more.
//
// A pull is answered at once; the answer has the clock after which the rank continues. A push that
// wants no weights is counted, and its answer has no weights.
//
// After a restart of the server, each worker hands back, for each cell, its newest answer to a
// push. The answer proves that the previous server process had counted that clock, so the worker
// does not repeat that push.
//
// When a cell has counted target() pushes of all ranks together, or a stop is requested, the cell's
// delayed answers are sent, and each later answer of the cell says `stop`.
//
// Besides its weights a cell keeps a few numbers per rank, so messages cannot make its memory grow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/counted_cell.h"
#include "common/protocol/rounds/lane.h"

namespace tern::protocol {

class ClockLane : public Lane {
 public:
  using Options = ClockLaneOptions;

  ClockLane(Options options, std::vector<ClockCellSpec> cells);

  void OnMembers(const pb::Members& members, Sends* out) override;
  void OnHello(Peer from, const pb::Hello& hello, Sends* out) override;
  void OnMessage(Peer from, const Message& message, Sends* out) override;
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) override;
  // Delayed answers are sent when the next message arrives.
  void OnStop() override { state_.stop_requested = true; }
  // Handles a stop request like OnStop(), and sends the delayed answers at once.
  void Stop(Sends* out);

  bool open() const override { return state_.is_open; }
  uint64_t floor() const override { return 0; }
  const Counters& counters() const override { return state_.counters; }
  // By rank: the number of pushes dropped as staler than ClockLaneOptions::max_staleness.
  const std::vector<uint64_t>& dropped() const { return state_.num_dropped; }
  // The number of pushes whose answers are delayed.
  size_t num_waiting() const;

  // For checkpoints: return and restore what was counted for a cell. REQUIRE a cell of this lane.
  // Restore also REQUIRES that the cell has counted no push.
  const CellClocks& clocks(const Cell& cell) const;
  void Restore(const Cell& cell, CellClocks clocks);
  // Resets the lane to its initial state, with new cells and no members. The effect of earlier
  // pushes is lost. The counters keep their values.
  void GoBack(std::vector<ClockCellSpec> cells);
  // The smallest number of pushes that a cell of the lane has counted; 0 if the lane has no cells.
  uint64_t total() const;
  // How many pushes the ranks have made together, as the cell knows that is furthest behind: the
  // sum of the clocks that it has counted, without the pushes beyond target(). It includes the
  // pushes that the cell has dropped as too stale, or lost when its server was restarted. So the
  // lanes of all servers agree on it, up to the pushes that are on their way.
  uint64_t position() const;
  // How many pushes of all ranks each cell gets in this job; 0: not known yet.
  uint64_t target() const { return state_.target_pushes; }
  // How many pushes of one member are lost, as the maximum over members and cells: a previous
  // process of this server had answered them, but this process restored older weights.
  uint64_t lost_clocks() const { return state_.lost_clocks; }

  // These invariants hold after every event. Lane: no answer is delayed while the lane is not open;
  // a rank's newest clock is the greatest clock that a cell has counted for the rank; the histogram
  // of staleness has every counted or dropped push. Each cell (CountedCell): it has not counted
  // more pushes than the sum of its ranks' clocks; no answer had a newer version than the weights;
  // a rank whose answer is delayed is a member and, if no stop was requested, too far ahead.
  Status Check() const;

 private:
  friend class ClockLanePeer;  // gives tests access to private members

  void SetCells(std::vector<ClockCellSpec> cells);
  void OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                      Sends* out);
  void OnHeldOutcome(Peer from, Kind kind, const pb::Outcome& held_outcome, Sends* out);
  void SendUnblockedAnswers(Sends* out);
  void OpenIfComplete(Sends* out);
  CountedCell* Find(const Cell& cell);

  ClockLaneState state_;
  std::map<Cell, CountedCell> cells_;
};

}  // namespace tern::protocol
