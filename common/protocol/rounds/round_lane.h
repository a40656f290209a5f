// The state machine of one lane of a server shard in rounds: everything that arrives at one socket
// and is added up over the workers (scalers and figures on control, pushes on a data socket). One
// instance per thread.
//
// A slot is a cell in one round:
//
//        first contribution       enough contributions
//   (none) -------------> open ---------------------------> closed -------------> gone
//      |                                                      ^   floor at its round
//      +------------------------------------------------------+
//          a worker hands back an outcome to a restarted server
//
//   open:   each contribution counts once; repeats are dropped; an invalid one is refused, and the
//           slot starts again empty (workers repeat what is not answered). A contribution that
//           takes no part (skip) counts as arrived, and adds nothing
//   closed: the outcome is kept, and sent again to workers that repeat a contribution or come late
//
// Enough contributions: of all members; with `quorum` the first that many of them; under `shrink`
// of those members that are not fetching State. A removed member is not waited for, but its
// contribution counts. The slots of a cell close in the order of rounds. An outcome says who
// contributed.
//
// An outcome is final once any worker has it, even if the server restarts and loses it. So a blank
// lane does not close a round of which a member may hold an outcome until all members have
// contributed to it: the member that holds it does not contribute, but hands it back.
//
// The floor is the least applied round over the members. It does not move while a member that
// replaced another has not reported what it has applied (its State may be as old as the floor). A
// lane starts blank, and opens when every member has said hello on it, so a restarted server knows
// its floor before it takes contributions: the least applied round, or 0 while a member has not
// reported its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/lane_members.h"

namespace tern::protocol {

// Adds up the contributions to one slot.
class CellSum {
 public:
  virtual ~CellSum() = default;
  // After an error (the payload is not a valid contribution) the sum must not be used any more.
  // REQUIRES each rank at most once.
  virtual Status Add(uint32_t rank, const Bytes& payload) = 0;
  // The answer, over the ranks added. REQUIRES at least one, except for cells with every_round:
  // their answer may be empty.
  virtual Bytes Close() = 0;
};

struct CellSpec {
  Cell cell;
  std::function<std::unique_ptr<CellSum>(uint64_t round)> open;
  // Whether the bytes are a possible outcome of this cell over `contributors` (at least 1).
  // Outcomes that workers hand back are checked with it.
  std::function<Status(const Bytes&, uint32_t contributors)> check_outcome;
  bool waits_for_all = false;  // ignores the quorum
  // Under `shrink`: drops the contributions of members that are removed before it closes.
  bool of_members = false;
  // Takes part in every round, and round r + 1 builds on r: rounds close in order, even if r has no
  // contributions.
  bool every_round = false;
  // The answer to a pull (of the moving average, if asked for), where servers hold the parameters;
  // empty: the cell cannot be pulled.
  struct Pulled {
    Bytes payload;
    bool whole = false;  // in fp32, whatever the job's pull codec
  };
  std::function<Pulled(bool average)> pull = nullptr;
  // Adds its state between rounds, for checkpoints; empty: it has none.
  std::function<void(SavedState*)> state = nullptr;
};

class RoundLane : public Lane {
 public:
  struct Options {
    uint32_t workers = 1;
    uint32_t window = 1;  // rounds that a worker may have open: 1; 2 for OD-SGD
    uint32_t quorum = 0;  // contributions that close a slot; 0: all are needed
    bool shrink = false;  // members may be removed, and are not waited for while they fetch State
    uint32_t max_ahead = 16;  // with quorum or shrink: rounds beyond the floor that a cell keeps
    uint64_t incarnation = 0;
    std::vector<uint32_t> data_ports;  // sent in Welcome; control only
    bool welcomes = true;  // data lanes answer hellos themselves; for control the coordinator does
    std::function<double(uint64_t round)> learning_rate;  // shard 0 only
    bool leads = false;  // has the cell whose closing fixes the last round after a stop request
    Safeguards safeguards;
  };
  RoundLane(Options options, std::vector<CellSpec> cells);

  void OnMembers(const pb::Members& members, Sends* out) override;
  void OnHello(Peer from, const pb::Hello& hello, Sends* out) override;
  // Takes contributions and retained outcomes; refuses anything else.
  void OnMessage(Peer from, const Message& message, Sends* out) override;
  // A heartbeat reports what a rank has applied.
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) override;
  // The next round that closes in the leading cell is the job's last.
  void OnStop() override { stop_requested_ = true; }
  // The job continues after `round`, whatever happened since: all slots are dropped, and all
  // members, who are told elsewhere and say hello again. The next round does not close before all
  // of them have contributed, so that they all pull the same state.
  void GoBack(uint64_t round);

  bool open() const override { return open_; }
  uint64_t floor() const override { return floor_; }
  const Counters& counters() const override { return counters_; }
  // By rank: contributions that arrived after their slot had closed without them.
  const std::vector<uint64_t>& late_by_rank() const { return late_by_rank_; }
  // The number of slots of the cell that has most; at most MaxSlots().
  size_t slots() const;
  size_t MaxSlots() const;
  // For messages: the ranks whose contribution to the oldest open slot is missing.
  std::vector<uint32_t> Missing() const;

 private:
  struct Slot {
    std::unique_ptr<CellSum> sum;  // while open
    std::vector<uint64_t> come;    // by rank: the incarnation that contributed (or came late), or 0
    std::vector<bool> added;       // by rank: whether it is in the sum
    uint32_t contributors = 0;     // how many are in the sum
    uint64_t digest = 0;           // of the scalers that all of them used
    bool closed = false;
    pb::Outcome outcome;
    Bytes payload;
  };
  struct CellState {
    CellSpec spec;
    std::map<uint64_t, Slot> slots;  // by round
  };

  void OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                      Sends* out);
  void OnPull(Peer from, const CellState& state, const pb::Contribution& c, Sends* out);
  void OnHeld(Peer from, Kind kind, const pb::Outcome& outcome, const Bytes& payload, Sends* out);
  Status CheckHeld(const CellState& state, const pb::Outcome& held, const Bytes& payload) const;
  // The slot of a contribution, opened if needed; null if the contribution is stale or early.
  Slot* SlotFor(Peer from, CellState* state, const pb::Contribution& c, Sends* out);
  bool HasRoomFor(const CellState& state, uint64_t round) const;
  void StartSlot(const CellState& state, uint64_t round, Slot* slot) const;
  void CountIn(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
               const Bytes& payload, Sends* out);
  void CountClosed(Slot* slot, const pb::Contribution& c);
  // Adds a contribution that takes part; false if it was refused.
  bool AddTo(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
             const Bytes& payload, Sends* out);
  // Whether none of the contributors is still a member.
  bool IsOfThoseGone(const Slot& slot) const;
  // Restarts the open slots of an of_members cell that have contributions of removed members.
  void DropThoseGone(CellState* state);
  bool HasEnough(const CellState& state, uint64_t round, const Slot& slot) const;
  bool IsRequired(const LaneMember& member) const {
    return options_.shrink ? member.settled() : member.present();
  }
  bool IsElastic() const { return options_.quorum != 0 || options_.shrink; }
  void CloseWhatHasEnough(CellState* state, Sends* out);
  void Close(CellState* cell, uint64_t round, Slot* slot, Sends* out);
  void SendOutcome(const CellState& cell, const Slot& slot, Peer to, Sends* out) const;
  void SendTaken(Peer to, Kind kind, const pb::Outcome& held, Sends* out) const;
  // Sends the closed outcomes that the member has not applied: it may have missed them.
  void SendWhatItMissed(const LaneMember& member, Sends* out) const;
  void OpenIfComplete(Sends* out);
  void Welcome(Peer to, Sends* out) const;
  void AdvanceFloor();
  // Tells workers whose contributions were refused for lack of room that there is room now.
  void AskAgain(Sends* out);
  CellState* Find(const Cell& cell);

  Options options_;
  std::map<Cell, CellState> cells_;
  LaneMembers members_;
  uint64_t floor_ = 0;
  bool open_ = false;
  // While the lane is blank: the newest round of which a member may hold an outcome.
  uint64_t held_until_ = 0;
  bool stop_requested_ = false;
  uint64_t stop_after_ = 0;        // 0: not decided
  std::vector<bool> turned_away_;  // by rank: contributions were refused for lack of room
  bool has_room_again_ = false;
  Counters counters_;
  std::vector<uint64_t> late_by_rank_;
};

}  // namespace tern::protocol
