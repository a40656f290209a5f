// A lane without rounds: every push changes the cell's weights at once (asgd, dcasgd, ssp,
// softsync, asynchronous easgd). `round` in its messages is the clock of the worker that sends: its
// own count of exchanges, from 1.
//
//   push(rank, clock) --counted once by (cell, rank, clock)--> Cell::Push --> answer: Cell::Pull
//
//   A repeated push (the newest clock of its rank) is answered again and not counted again; an
//   older one is refused as stale, and whose rank another process has taken further leaves. Clocks
//   may leap: who returns goes on from the newest that any cell has. ssp: the answer waits until no
//   member's clock is more than `bound` behind. Who is no longer a member, or has said that it
//   takes no further part (skip), holds nobody up. pull_only: answered at once; Outcome.round is
//   the newest counted clock of that rank. push_only: counted, and answered without weights. An
//   answer that is handed back: so far had a server before this one counted; it is the clock of its
//   sender, who does not push that again.
//
// When the pushes of all ranks to a cell reach `pushes` (or a stop is asked for) every answer from
// then on says stop_after (the asker's own clock), and what waits is answered.
//
// A cell keeps, beside its weights, some numbers a rank: nothing that is said to it makes it grow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/lane.h"
#include "common/protocol/lane_members.h"

namespace tern::protocol {

// The weights of one cell, and what a push does to them.
class ClockCell {
 public:
  struct Answer {
    Bytes payload;
    bool whole = false;  // weights in fp32, whatever the job's pull codec
  };
  virtual ~ClockCell() = default;
  // Counts a push in. `base`: the version of the weights that `rank` took it at, at most version().
  // A Status: the payload is no possible push, nothing has changed.
  virtual Status Push(uint32_t rank, uint64_t base, const Bytes& payload) = 0;
  // Changes so far.
  virtual uint64_t version() const = 0;
  // What `rank` goes on from. `holds`: the version of the weights that it has; nothing: it has
  // none. A difference is made only for one that holds what the cell answered it last.
  virtual Answer Pull(uint32_t rank, std::optional<uint64_t> holds) = 0;
  // The moving average of the weights (the weights where none is kept), fp32.
  virtual Bytes Average() const = 0;
};

struct ClockCellSpec {
  Cell cell;
  std::unique_ptr<ClockCell> weights;
};

// What a cell has counted; part of snapshots.
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
    // Of all ranks to a cell, in a job of `steps` steps.
    std::function<uint64_t(uint64_t steps)> pushes;
    std::optional<uint64_t> bound;  // ssp
    uint64_t max_staleness = 0;     // a push staler than this is dropped; 0: none is
    // After `total` pushes to a cell; told with answers. Shard 0 only.
    std::function<double(uint64_t total)> learning_rate;
    Safeguards safeguards;
  };
  static constexpr size_t kStalenessBins = 33;              // 0 to 31, and all beyond
  static constexpr uint64_t kMaxClock = uint64_t{1} << 62;  // a greater one is no clock

  ClockLane(Options options, std::vector<ClockCellSpec> cells);

  void OnMembers(const pb::Members& members, Sends* out) override;
  void OnHello(Peer from, const pb::Hello& hello, Sends* out) override;
  void OnMessage(Peer from, const Message& message, Sends* out) override;
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) override;
  // What waits is answered with the next message.
  void OnStop() override { stop_requested_ = true; }
  // As OnStop, and answers what waits now.
  void Stop(Sends* out);

  bool open() const override { return open_; }
  uint64_t floor() const override { return 0; }
  const Counters& counters() const override { return counters_; }
  // By rank: pushes that were staler than allowed.
  const std::vector<uint64_t>& dropped() const { return dropped_; }
  // Answers that wait for slower workers.
  size_t waiting() const;

  // Snapshots. REQUIRES the cell is of this lane; Restore: before the first hello.
  const CellClocks& clocks(const Cell& cell) const;
  void Restore(const Cell& cell, CellClocks clocks);
  // The lane as it was made, of `cells` as they were made: the pushes of before never were, and
  // nobody is a member. What it has counted goes on.
  void GoBack(std::vector<ClockCellSpec> cells);
  // The least total over the cells.
  uint64_t total() const;
  // Of all ranks to a cell in this job; 0: not known yet.
  uint64_t target() const { return target_; }
  // Whether the job is done: nobody was told to stop, and all members take no further part.
  bool done() const;
  // By how many clocks those that members had answered, by a server before this one, were ahead of
  // the counted ones, at most.
  uint64_t lost_clocks() const { return lost_clocks_; }

 private:
  struct Waiting {
    Peer peer = 0;  // who asked last
    std::optional<uint64_t> holds;
  };
  struct Rank {
    // As if counted: where it joined, or what a server before this one answered it.
    uint64_t at_least = 0;
    uint64_t counted_by = 0;  // the incarnation of its newest push; 0: a server before this one
    bool finished = false;
    uint64_t staleness = 0;  // of its newest push
    bool dropped = false;
    std::optional<Waiting> waiting;  // its newest push has no answer yet
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
  // What is wrong with a contribution, or nothing.
  static std::string Check(const pb::Contribution& c, const Bytes& payload);
  void OnPush(Peer from, CellState* cell, const pb::Contribution& c, const Bytes& payload,
              Sends* out);
  // False (and refused) if the payload is none.
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
  // Of all members that take part, the least; the greatest number if there is none.
  uint64_t LeastClock(const CellState& cell) const;
  // Whoever pushes clock c to a cell is done with c - 1 everywhere, also where a process of its
  // rank died before it had pushed that.
  uint64_t ClockOf(const CellState& cell, uint32_t rank) const;
  bool MustWait(const CellState& cell, uint32_t rank) const;
  bool Stopped(const CellState& cell) const;
  void OnChangedMember(uint32_t rank, bool was_removed);
  void OpenIfComplete(Sends* out);
  CellState* Find(const Cell& cell);

  Options options_;
  std::map<Cell, CellState> cells_;
  LaneMembers members_;
  std::vector<uint64_t> incarnations_;  // as the last membership said
  std::vector<uint64_t> newest_;        // by rank: the newest clock that any cell has counted
  bool open_ = false;
  bool stop_requested_ = false;
  uint64_t target_ = 0;  // pushes to a cell; 0: the length of the job is not known
  std::vector<uint64_t> dropped_;
  uint64_t lost_clocks_ = 0;
  Counters counters_;
};

}  // namespace tern::protocol
