// One cell of a lane without rounds: which pushes it has counted of each rank, and who waits for an
// answer (see clock_lane.h). What a rank goes through at a cell:
//
//                  its push must wait
//   +--> kTraining -------------------> kWaiting
//   |      |   ^                         |    |
//   |      |   +---answered, counted-----+    |
//   |      |       again, replaced            |
//   |      +------part------+-------part------+
//   |                       v
//   +--counted, replaced-- kParted
//
//   kTraining  its pushes are answered
//   kWaiting   (ssp) its newest push is counted, and not answered yet: others are too far behind
//   kParted    takes no further part, and delays nobody
//
// "counted": a push of it is counted; "replaced": another process has the rank, or none.
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
  // The pushes of all ranks to a cell in a job of `steps` steps.
  std::function<uint64_t(uint64_t steps)> pushes;
  std::optional<uint64_t> bound;  // ssp
  uint64_t max_staleness = 0;     // pushes staler than this are dropped; 0: never
  // The rate after `total` pushes to a cell; sent with answers. Shard 0 only.
  std::function<double(uint64_t total)> learning_rate;
  Safeguards safeguards;
};

inline constexpr size_t kStalenessBins = 33;              // 0 to 31, and all above
inline constexpr uint64_t kMaxClock = uint64_t{1} << 62;  // greater clocks are invalid

// What a lane and its cells share. The lane owns it.
struct ClockLaneState {
  explicit ClockLaneState(ClockLaneOptions with);

  const ClockLaneOptions options;
  LaneMembers members;
  std::vector<uint64_t> newest;  // by rank: the newest clock that any cell has counted
  bool open = false;
  bool stop_requested = false;
  uint64_t target = 0;            // pushes to a cell; 0: the job's length is not known
  std::vector<uint64_t> dropped;  // by rank: pushes that were too stale
  uint64_t lost_clocks = 0;
  Lane::Counters counters;
};

class CountedCell {
 public:
  enum class RankState : uint8_t { kTraining, kWaiting, kParted };

  // The state outlives the cell.
  CountedCell(ClockCellSpec spec, ClockLaneState* lane);

  // What a member says. REQUIRES of each that the contribution is of its kind.
  void Push(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out);
  void Pull(Peer from, const pb::Contribution& c, Sends* out);
  void Part(Peer from, const pb::Contribution& c, Sends* out);
  // A member hands back what a previous incarnation of the server had answered to a push or to a
  // parting.
  void TakeBack(Peer from, const pb::Outcome& held);
  // Another process has the rank, or none.
  void OnChangedMember(uint32_t rank, bool was_removed);
  // Answers those who need not wait any more.
  void Release(Sends* out);

  const CellClocks& clocks() const { return clocks_; }
  void Restore(CellClocks clocks);
  bool parted(uint32_t rank) const { return ranks_[rank].state == RankState::kParted; }
  size_t waiting() const;
  Status Check() const;

 private:
  friend class ClockLanePeer;  // of the tests
  struct Rank {
    RankState state = RankState::kTraining;
    // While it waits: the connection that asked last, and the version that it holds.
    Peer peer = 0;
    std::optional<uint64_t> holds;
    // The least clock that it is taken to have: where it joined, or a previous incarnation's
    // answer.
    uint64_t at_least = 0;
    uint64_t counted_by = 0;  // incarnation of its newest push; 0: counted before a restart
    uint64_t staleness = 0;   // of its newest push
    bool dropped = false;
  };

  // The only way from state to state. False, and nothing changes, where the drawing has no arrow.
  bool Become(uint32_t rank, RankState next);
  void RefuseAsStale(Peer from, const pb::Contribution& c, Sends* out) const;
  // Returns false, and refuses the push, if the payload is invalid.
  bool CountIn(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out);
  // An answer to the newest push of the rank, without weights.
  Send MakeAnswerToPush(Peer to, uint32_t rank) const;
  // The same, with weights.
  void AnswerPush(Peer to, uint32_t rank, std::optional<uint64_t> holds, Sends* out);
  // `to` and the payload become those of the weights that the rank gets.
  void AddWeights(uint32_t rank, std::optional<uint64_t> holds, pb::Outcome::Weights* to,
                  Bytes* payload);
  // Without a form.
  Send MakeAnswer(Peer to) const;
  // Sets what the answers to pushes, partings and pulls share.
  template <typename Form>
  void SetCounts(uint64_t clock, Form* form) const;
  // The least clock of all members that take part, but for `but`; the greatest number if there is
  // none.
  uint64_t LeastClock(std::optional<uint32_t> but) const;
  // A worker that pushes clock c to some cell has finished c - 1 in all cells, even if an earlier
  // process of its rank died before it had pushed c - 1 here.
  uint64_t ClockOf(uint32_t rank) const;
  bool MustWait(uint32_t rank) const;
  bool Stopped() const;
  Status CheckWaiting(uint32_t rank) const;

  ClockCellSpec spec_;
  ClockLaneState* lane_;
  CellClocks clocks_;
  std::vector<Rank> ranks_;
};

}  // namespace tern::protocol
