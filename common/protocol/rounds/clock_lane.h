// A lane without rounds: every push changes the cell's weights at once (asgd, dcasgd, ssp,
// softsync, asynchronous easgd). A clock is the sending worker's own count of exchanges, from 1.
//
//   push(rank, clock) --counted once by (cell, rank, clock)--> Cell::Push --> answer: Cell::Pull
//
// Repeats: a push with the newest clock of its rank is answered again and not counted again. An
// older one is refused as stale; if another process has the rank meanwhile, the sender is told to
// leave. Clocks may skip: a returning worker continues from the newest clock of any cell.
//
// ssp: the answer to a push waits while a member's clock is more than `bound` behind. A rank that
// is no longer a member, or has parted, does not delay anybody.
//
// A pull is answered at once, with the newest counted clock of the rank. A push that wants no
// weights is counted, and answered without them.
//
// A retained reply proves that a previous incarnation of the server had committed this clock: the
// worker that hands it back does not push that clock again.
//
// When the pushes of all ranks to a cell reach `pushes` (or a stop is requested), every later
// answer says `stop`, and waiting pushes are answered.
//
// Besides its weights a cell keeps a few numbers per rank: no message makes it grow.
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
  // Waiting pushes are answered with the next message.
  void OnStop() override { state_.stop_requested = true; }
  // As OnStop, and answers waiting pushes now.
  void Stop(Sends* out);

  bool open() const override { return state_.open; }
  uint64_t floor() const override { return 0; }
  const Counters& counters() const override { return state_.counters; }
  // By rank: pushes that were too stale.
  const std::vector<uint64_t>& dropped() const { return state_.dropped; }
  // Pushes whose answers wait for slower workers.
  size_t waiting() const;

  // For checkpoints. REQUIRES a cell of this lane; Restore: before the first push.
  const CellClocks& clocks(const Cell& cell) const;
  void Restore(const Cell& cell, CellClocks clocks);
  // Resets the lane to its initial state, with new cells: earlier pushes are undone, and nobody is
  // a member. Its counters continue.
  void GoBack(std::vector<ClockCellSpec> cells);
  // The least total over the cells.
  uint64_t total() const;
  // The pushes of all ranks to a cell in this job; 0: not known yet.
  uint64_t target() const { return state_.target; }
  // Whether the job is done: no stop was requested, and no member takes part any more.
  bool done() const;
  // The most clocks that a previous incarnation had answered to a member and this one had not
  // counted.
  uint64_t lost_clocks() const { return state_.lost_clocks; }

  // Holds after every event: nobody waits at a lane that is not open; a rank's newest clock is the
  // greatest that a cell has counted of it; every counted or dropped push has its staleness. Of
  // each cell (CountedCell): it has counted no more pushes than its clocks allow; no answer was
  // newer than the weights; whoever waits is a member that is too far ahead.
  Status Check() const;

 private:
  friend class ClockLanePeer;  // of the tests

  void TakeCells(std::vector<ClockCellSpec> cells);
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
