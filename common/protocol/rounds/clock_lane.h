// A data lane of a server in a job without rounds (asgd, dcasgd, ssp, softsync, asynchronous
// easgd): every push changes the weights of its cell on arrival. A clock is the sending worker's
// own count of exchanges, from 1. One thread calls a lane.
//
//   push(rank, clock) --once per (cell, rank, clock)--> ClockCell::Push --> answer: ClockCell::Pull
//
// Repeated pushes: a push with the newest clock of its rank is answered again but not counted
// again. An older one is refused as stale; if another process has taken the rank since, the sender
// is told to leave. Clocks may skip numbers, because a returning worker continues from the newest
// clock of any cell.
//
// ssp: the answer to a push is delayed while the clock of some member is more than `bound` behind.
// A rank that is not a member any more, or has sent its Parting (it pushes no more), delays no
// other worker.
//
// A pull is answered at once, and tells the newest counted clock of the rank. A push that wants no
// weights is counted and answered without weights.
//
// After a restart of the server, workers hand back their newest answer to a push of each cell. It
// proves that the server process before had counted that clock; the worker does not push it again.
//
// When the pushes of all ranks to a cell reach ClockLaneOptions::pushes, or a stop is requested,
// every later answer says `stop`, and delayed answers are sent.
//
// Besides its weights a cell keeps a few numbers per rank, so no message makes its memory grow.
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
  // As OnStop(), but sends the delayed answers now.
  void Stop(Sends* out);

  bool open() const override { return state_.open; }
  uint64_t floor() const override { return 0; }
  const Counters& counters() const override { return state_.counters; }
  // By rank: pushes dropped because they were staler than max_staleness.
  const std::vector<uint64_t>& dropped() const { return state_.dropped; }
  // The number of pushes whose answers are delayed.
  size_t waiting() const;

  // For checkpoints: what was counted for a cell, and its restoration. REQUIRES a cell of this
  // lane; Restore also REQUIRES no push yet.
  const CellClocks& clocks(const Cell& cell) const;
  void Restore(const Cell& cell, CellClocks clocks);
  // Resets the lane to its initial state, with new cells: earlier pushes are undone, and it has no
  // members. Its counters continue.
  void GoBack(std::vector<ClockCellSpec> cells);
  // The pushes counted by the cell that has counted least.
  uint64_t total() const;
  // How many pushes of all ranks each cell gets in this job; 0: not known yet.
  uint64_t target() const { return state_.target; }
  // Whether the job is done: no stop was requested, and no member takes part any more.
  bool done() const;
  // The clocks of one member that a previous process of this server had answered but that are lost,
  // because this process restored older weights; the maximum over members.
  uint64_t lost_clocks() const { return state_.lost_clocks; }

  // Holds after every event. Lane: no answer is delayed while it is not open; a rank's newest clock
  // is the greatest that a cell has counted for it; the histogram of staleness has every counted or
  // dropped push. Each cell (CountedCell): it has counted no more pushes than its clocks allow; no
  // answer had a newer version than the weights; a rank whose answer is delayed is a member and too
  // far ahead.
  Status Check() const;

 private:
  friend class ClockLanePeer;  // of the tests

  void SetCells(std::vector<ClockCellSpec> cells);
  void OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                      Sends* out);
  void OnHeld(Peer from, Kind kind, const pb::Outcome& held, Sends* out);
  void ReleaseAll(Sends* out);
  void OpenIfComplete(Sends* out);
  CountedCell* Find(const Cell& cell);

  ClockLaneState state_;
  std::map<Cell, CountedCell> cells_;
};

}  // namespace tern::protocol
