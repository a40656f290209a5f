// One cell of a ClockLane, which applies workers' pushes on arrival (clock_lane.h). The cell has
// the weights of one chunk of the model. It knows which pushes it has counted for each rank, and
// which answers it delays. A clock is a worker's own count of exchanges. The states of a rank at a
// cell:
//
//                  its push must wait
//   +--> kTraining -------------------> kWaiting
//   |      |   ^                         |    |
//   |      |   +---answered, counted,----+    |
//   |      |       replaced, removed          |
//   |      +------part------+-------part------+
//   |                       v
//   +--counted, replaced-- kParted
//
//   kTraining  no answer to a push of the rank is delayed
//   kWaiting   (ssp, stale synchronous parallel) the rank's newest push is counted but not
//              answered, because other ranks are too far behind
//   kParted    the rank has sent Parting (it pushes no more), and delays no other worker
//
// Arrows: "counted": a push of the rank is counted; "replaced": another process gets the rank;
// "removed": no process has the rank; "part": a Parting arrives. An incarnation is a random number
// that names a process; a lost worker that joins again has a new one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/clock_cell.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/lane_members.h"

namespace tern::protocol {

struct ClockLaneOptions {
  uint32_t workers = 1;
  uint64_t incarnation = 0;
  // Returns the number of pushes, over all ranks, that each cell gets in a job of `steps` steps.
  std::function<uint64_t(uint64_t steps)> num_pushes;
  // For ssp: by how many clocks a rank may be ahead of the slowest rank. Unset: without limit.
  std::optional<uint64_t> max_clocks_ahead;
  uint64_t max_staleness = 0;  // Pushes staler than this are dropped; 0: no push is dropped.
  // Returns the learning rate after `total` pushes to a cell, to send it with answers. Set only on
  // shard 0, the first server process.
  std::function<double(uint64_t total)> learning_rate;
  Safeguards safeguards;
};

// The number of bins of the histogram of staleness: one bin for each value from 0 to 31, and one
// bin for all larger values.
inline constexpr size_t kStalenessBins = 33;
inline constexpr uint64_t kMaxClock = uint64_t{1} << 62;  // greater clocks are invalid

// The data that a ClockLane and its cells share. The lane owns the object.
struct ClockLaneState {
  explicit ClockLaneState(ClockLaneOptions given_options);

  const ClockLaneOptions options;
  LaneMembers members;
  std::vector<uint64_t> newest_clocks;  // by rank: the newest clock that any cell has counted
  bool is_open = false;                 // whether every member has said hello on the lane
  bool stop_requested = false;
  // How many pushes of all ranks each cell gets in this job; 0: the job's length is not known yet.
  uint64_t target_pushes = 0;
  // By rank: how many pushes were dropped because they were too stale.
  std::vector<uint64_t> num_dropped;
  // The maximum over ranks and cells of the number of pushes that a previous server process had
  // answered and that are lost, because this process restored older weights.
  uint64_t lost_clocks = 0;
  Lane::Counters counters;
};

class CountedCell {
 public:
  enum class RankState : uint8_t { kTraining, kWaiting, kParted };

  // `lane` outlives the cell.
  CountedCell(ClockCellSpec spec, ClockLaneState* lane);

  // Handle a contribution of a member: a push (REQUIRES c.has_at_clock()), a pull (REQUIRES
  // c.has_pull()), or a Parting, which says that the worker pushes no more.
  void OnPush(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out);
  void OnPull(Peer from, const pb::Contribution& c, Sends* out);
  void OnParting(Peer from, const pb::Contribution& c, Sends* out);
  // A member hands back the answer that a previous server process sent to a push or to a Parting.
  void RestoreFromOutcome(Peer from, const pb::Outcome& held_outcome);
  // Call when the rank has passed to another process, or to none. `was_removed`: no process had the
  // rank before the change.
  void OnChangedMember(uint32_t rank, bool was_removed);
  // Sends the delayed answers that need not wait any more.
  void SendUnblockedAnswers(Sends* out);

  const CellClocks& clocks() const { return clocks_; }
  void RestoreClocks(CellClocks clocks);
  // Whether the answer to the rank's newest push is delayed.
  bool waiting(uint32_t rank) const { return ranks_[rank].state == RankState::kWaiting; }
  bool parted(uint32_t rank) const { return ranks_[rank].state == RankState::kParted; }
  size_t num_waiting() const;  // the number of delayed answers
  // Checks the invariants of a cell that ClockLane::Check lists.
  Status Check() const;

 private:
  friend class ClockLanePeer;  // for tests
  struct RankEntry {
    RankState state = RankState::kTraining;
    // While the answer is delayed: the connection of the rank's newest push, and the version of the
    // weights that the worker has.
    Peer peer = 0;
    std::optional<uint64_t> held_version;
    // A lower bound of the rank's clock: the least clock of the other ranks when a new process got
    // the rank, or a clock that a previous server process had answered.
    uint64_t least_clock = 0;
    // The newest clock that a previous server process had answered, and this one had not counted
    // when the member handed the answer back; 0: none.
    uint64_t answered_before = 0;
    // The incarnation that sent the newest push that this server process counted; 0: none so far.
    uint64_t counted_incarnation = 0;
    uint64_t staleness = 0;   // of the rank's newest push
    bool is_dropped = false;  // whether the rank's newest push was dropped as too stale
  };

  // Changes a rank's state; no other function does. Returns false and changes nothing if `next` is
  // kWaiting and the rank is not kTraining.
  bool Become(uint32_t rank, RankState next);
  void RefuseAsStale(Peer from, const pb::Contribution& c, Sends* out) const;
  // Counts and applies a push. If the payload is invalid, refuses the push and returns false.
  bool CountAndApply(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out);
  // Makes the answer to the rank's newest push, without weights.
  Send MakeAnswerToPush(Peer to, uint32_t rank) const;
  // Sends the answer to the rank's newest push, with weights.
  void AnswerPush(Peer to, uint32_t rank, std::optional<uint64_t> held_version, Sends* out);
  // Sets *payload to the weights that the rank gets, and *weights to their description.
  // `held_version`: the version of the weights that the worker has; nullopt: none.
  void AddWeights(uint32_t rank, std::optional<uint64_t> held_version,
                  pb::Outcome::Weights* weights, Bytes* payload);
  // Makes an outcome message that names this cell. The caller sets which kind of answer it is.
  Send MakeAnswer(Peer to) const;
  // Sets the clock, the count of pushes and the stop request in an answer of any kind.
  template <typename Form>
  void SetCounts(uint64_t clock, Form* form) const;
  // The least clock of the members that have not parted, `excluded_rank` left out; the greatest
  // uint64_t if there is no such member.
  uint64_t LeastClock(std::optional<uint32_t> excluded_rank) const;
  // The rank's clock in this cell: the newest that this cell has counted, but at least least_clock,
  // and at least c - 1 if any cell of the lane has counted c. (An earlier process of the rank may
  // have died before it pushed c - 1 to this cell.)
  uint64_t ClockOf(uint32_t rank) const;
  bool MustWait(uint32_t rank) const;
  bool MustStop() const;
  Status CheckWaiting(uint32_t rank) const;

  ClockCellSpec spec_;
  ClockLaneState* lane_;
  CellClocks clocks_;
  std::vector<RankEntry> ranks_;
};

}  // namespace tern::protocol
