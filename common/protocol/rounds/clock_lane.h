// A lane without rounds: every push changes the cell's weights at once (asgd, dcasgd, ssp,
// softsync, asynchronous easgd). `round` in its messages is the sending worker's clock: its own
// count of exchanges, from 1.
//
//   push(rank, clock) --counted once by (cell, rank, clock)--> Cell::Push --> answer: Cell::Pull
//
// Repeats: a push with the newest clock of its rank is answered again and not counted again. An
// older one is refused as stale; if another process has the rank meanwhile, the sender is told to
// leave. Clocks may skip: a returning worker continues from the newest clock of any cell.
//
// ssp: the answer to a push waits while a member's clock is more than `bound` behind. A rank that
// is no longer a member, or has said that it takes no further part (skip), does not delay anybody.
//
// pull_only: answered at once; Outcome.round is the newest counted clock of the rank. push_only:
// counted, and answered without weights.
//
// A retained reply proves that a previous incarnation of the server had committed this clock: the
// worker that hands it back does not push that clock again.
//
// When the pushes of all ranks to a cell reach `pushes` (or a stop is requested), every later
// answer says stop_after (the clock of the worker that gets it), and waiting pushes are answered.
//
// Besides its weights a cell keeps a few numbers per rank: no message makes it grow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/lane_members.h"

namespace tern::protocol {

// The weights of one cell, and what a push does to them.
class ClockCell {
 public:
  struct Answer {
    Bytes payload;
    bool whole = false;  // weights in fp32, whatever the job's pull codec
  };
  virtual ~ClockCell() = default;
  // Applies a push. `base`: the version of the weights that `rank` computed it at, at most
  // version(). An error: the payload is not a valid push, and nothing has changed.
  virtual Status Push(uint32_t rank, uint64_t base, const Bytes& payload) = 0;
  // The number of changes so far.
  virtual uint64_t version() const = 0;
  // The weights from which `rank` continues. `holds`: the version that it has; nothing: none. The
  // answer is a difference only if `rank` holds this cell's last answer to it.
  virtual Answer Pull(uint32_t rank, std::optional<uint64_t> holds) = 0;
  // The moving average of the weights (the weights where none is kept), fp32.
  virtual Bytes Average() const = 0;
};

struct ClockCellSpec {
  Cell cell;
  std::unique_ptr<ClockCell> weights;
};

// What a cell has counted; saved in checkpoints.
struct CellClocks {
  uint64_t total = 0;              // pushes of all ranks
  std::vector<uint64_t> counted;   // by rank: the newest clock
  std::vector<uint64_t> answered;  // by rank: the version at its last answer
};

class ClockLane : public Lane {
 public:
  struct Options {
    uint32_t workers = 1;
    uint64_t incarnation = 0;
    // The pushes of all ranks to a cell in a job of `steps` steps.
    std::function<uint64_t(uint64_t steps)> pushes;
    std::optional<uint64_t> bound;  // ssp
    uint64_t max_staleness = 0;     // pushes staler than this are dropped; 0: never
    // The rate after `total` pushes to a cell; sent with answers. Shard 0 only.
    std::function<double(uint64_t total)> learning_rate;
    Safeguards safeguards;
  };
  static constexpr size_t kStalenessBins = 33;              // 0 to 31, and all above
  static constexpr uint64_t kMaxClock = uint64_t{1} << 62;  // greater clocks are invalid

  ClockLane(Options options, std::vector<ClockCellSpec> cells);

  void OnMembers(const pb::Members& members, Sends* out) override;
  void OnHello(Peer from, const pb::Hello& hello, Sends* out) override;
  void OnMessage(Peer from, const Message& message, Sends* out) override;
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) override;
  // Waiting pushes are answered with the next message.
  void OnStop() override { stop_requested_ = true; }
  // As OnStop, and answers waiting pushes now.
  void Stop(Sends* out);

  bool open() const override { return open_; }
  uint64_t floor() const override { return 0; }
  const Counters& counters() const override { return counters_; }
  // By rank: pushes that were too stale.
  const std::vector<uint64_t>& dropped() const { return dropped_; }
  // Pushes whose answers wait for slower workers.
  size_t waiting() const;

  // For checkpoints. REQUIRES a cell of this lane; Restore: before the first hello.
  const CellClocks& clocks(const Cell& cell) const;
  void Restore(const Cell& cell, CellClocks clocks);
  // Resets the lane to its initial state, with new cells: earlier pushes are undone, and nobody is
  // a member. Its counters continue.
  void GoBack(std::vector<ClockCellSpec> cells);
  // The least total over the cells.
  uint64_t total() const;
  // The pushes of all ranks to a cell in this job; 0: not known yet.
  uint64_t target() const { return target_; }
  // Whether the job is done: no stop was requested, and no member takes part any more.
  bool done() const;
  // The most clocks that a previous incarnation had answered to a member and this one had not
  // counted.
  uint64_t lost_clocks() const { return lost_clocks_; }

 private:
  struct Waiting {
    Peer peer = 0;  // the connection that asked last
    std::optional<uint64_t> holds;
  };
  struct Rank {
    // The least clock that it is taken to have: where it joined, or a previous incarnation's
    // answer.
    uint64_t at_least = 0;
    uint64_t counted_by = 0;  // incarnation of its newest push; 0: counted before a restart
    bool finished = false;
    uint64_t staleness = 0;  // of its newest push
    bool dropped = false;
    std::optional<Waiting> waiting;  // its newest push is not answered yet
  };
  struct CellState {
    ClockCellSpec spec;
    CellClocks clocks;
    std::vector<Rank> ranks;
  };

  void TakeCells(std::vector<ClockCellSpec> cells);
  void OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                      Sends* out);
  void OnHeld(Peer from, Kind kind, const pb::Outcome& held, Sends* out);
  // What is wrong with a contribution; empty if nothing is.
  static std::string Check(const pb::Contribution& c, const Bytes& payload);
  void OnPush(Peer from, CellState* cell, const pb::Contribution& c, const Bytes& payload,
              Sends* out);
  // Returns false, and refuses the push, if the payload is invalid.
  bool CountIn(Peer from, CellState* cell, const pb::Contribution& c, const Bytes& payload,
               Sends* out);
  void OnPull(Peer from, CellState* cell, const pb::Contribution& c, Sends* out);
  void OnSkip(Peer from, CellState* cell, const pb::Contribution& c, Sends* out);
  void AnswerPush(Peer to, CellState* cell, uint32_t rank, std::optional<uint64_t> holds,
                  Sends* out);
  void AddWeights(CellState* cell, uint32_t rank, std::optional<uint64_t> holds, Send* send);
  Send MakeAnswer(Peer to, const CellState& cell, uint64_t round) const;
  void Release(CellState* cell, Sends* out);
  void ReleaseAll(Sends* out);
  // The least clock of all members that take part; the greatest number if there is none.
  uint64_t LeastClock(const CellState& cell) const;
  // A worker that pushes clock c to some cell has finished c - 1 in all cells, even if an earlier
  // process of its rank died before it had pushed c - 1 here.
  uint64_t ClockOf(const CellState& cell, uint32_t rank) const;
  bool MustWait(const CellState& cell, uint32_t rank) const;
  bool Stopped(const CellState& cell) const;
  void OnChangedMember(uint32_t rank, bool was_removed);
  void OpenIfComplete(Sends* out);
  CellState* Find(const Cell& cell);

  Options options_;
  std::map<Cell, CellState> cells_;
  LaneMembers members_;
  std::vector<uint64_t> incarnations_;  // of the last membership
  std::vector<uint64_t> newest_;        // by rank: the newest clock that any cell has counted
  bool open_ = false;
  bool stop_requested_ = false;
  uint64_t target_ = 0;  // pushes to a cell; 0: the job's length is not known
  std::vector<uint64_t> dropped_;
  uint64_t lost_clocks_ = 0;
  Counters counters_;
};

}  // namespace tern::protocol
