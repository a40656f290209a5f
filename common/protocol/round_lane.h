// The round machine of one lane of a server shard: everything that arrives at one socket and is
// added up over the workers (scalers and figures on control, pushes on a data socket). One instance
// a thread.
//
// A cell of a round is a slot:
//
//        first contribution       enough have come, or a worker
//   (none) -------------> open -------------------------------> closed -------------> gone
//      |                          held it for a restarted server ^   floor at the round
//      +---------------------------------------------------------+
//
//   open:   a contribution counts once; a repeated one is dropped; one that cannot be is refused,
//           and the slot starts again from nothing (workers repeat what is not answered). One that
//           says that it takes no part has come, and adds nothing
//   closed: the outcome is kept, and sent again to whoever repeats a contribution or comes late
//
// Enough: all members; with `quorum` the first so many of them; under `shrink` those members that
// are not still fetching State. Who was removed is not waited for, but what it gave counts. The
// slots of a cell close in the order of rounds. Who a sum is over goes with it.
//
// An outcome is final once anybody has it, also for a server that was restarted and has lost it. So
// a blank lane closes no round for which a member said that it may hold an outcome before all have
// come to it: whoever holds it does not come, but hands it back.
//
// The floor is the least applied round over the members. It stands still while a member that
// replaced another has not shown what it has applied (it may get State as old as the floor). A lane
// is born blank and opens when every member has said hello on it, so a restarted server knows its
// floor before it takes anything: the least applied round, or 0 while a member has not shown its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/protocol/lane.h"
#include "common/protocol/lane_members.h"

namespace tern::protocol {

// Adds up the contributions to one slot.
class CellSum {
 public:
  virtual ~CellSum() = default;
  // A Status (the payload is not a possible contribution) ends the use of this sum. REQUIRES each
  // rank at most once.
  virtual Status Add(uint32_t rank, const Bytes& payload) = 0;
  // The answer, over whoever was added. REQUIRES one rank at least, but for cells of every round:
  // nothing, where nobody was.
  virtual Bytes Close() = 0;
};

struct CellSpec {
  Cell cell;
  std::function<std::unique_ptr<CellSum>(uint64_t round)> open;
  // Whether bytes could be the outcome of this cell over so many contributors (1 or more): what a
  // worker hands back is checked before it is used.
  std::function<Status(const Bytes&, uint32_t contributors)> check_outcome;
  bool waits_for_all = false;  // a quorum does not close it
  bool of_members = false;     // who was removed before it closed does not count (under `shrink`)
  // It has a part in every round, and round r + 1 builds on r: they close one after the other, also
  // where nothing of r has come yet.
  bool every_round = false;
  // What a pull (of the moving average, if asked for) is answered with, where servers hold the
  // parameters; empty: there is nothing to pull.
  struct Pulled {
    Bytes payload;
    bool whole = false;  // in fp32, whatever the job's pull codec
  };
  std::function<Pulled(bool average)> pull = nullptr;
  // What it keeps from round to round, for checkpoints; empty: nothing.
  std::function<void(SavedState*)> state = nullptr;
};

class RoundLane : public Lane {
 public:
  struct Options {
    uint32_t workers = 1;
    uint32_t window = 1;  // rounds that a worker may have open: 1, for OD-SGD 2
    uint32_t quorum = 0;  // a slot closes with so many contributions; 0: it waits for all
    bool shrink = false;  // members may be removed, and are not waited for while they fetch State
    uint32_t max_ahead = 16;  // with a quorum or shrink: rounds beyond the floor that a cell keeps
    uint64_t incarnation = 0;
    std::vector<uint32_t> data_ports;  // told in Welcome; control only
    bool welcomes = true;  // data lanes answer hellos themselves; on control the coordinator does
    std::function<double(uint64_t round)> learning_rate;  // shard 0 only
    bool leads = false;  // owns the cell whose closing decides the last round after a stop request
    Safeguards safeguards;
  };
  RoundLane(Options options, std::vector<CellSpec> cells);

  void OnMembers(const pb::Members& members, Sends* out) override;
  void OnHello(Peer from, const pb::Hello& hello, Sends* out) override;
  // Contributions and held outcomes; anything else is refused.
  void OnMessage(Peer from, const Message& message, Sends* out) override;
  // What a heartbeat says of a rank.
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) override;
  // The next round of the leading cell to close is the job's last.
  void OnStop() override { stop_requested_ = true; }
  // The job goes on after `round`, whatever was before: all slots are gone, and so are the members,
  // who have to be told and to say hello again. No round after the next closes before they are all
  // in it, so that they all find the same to pull.
  void GoBack(uint64_t round);

  bool open() const override { return open_; }
  uint64_t floor() const override { return floor_; }
  const Counters& counters() const override { return counters_; }
  // Contributions of each rank that came after their slot had closed without it.
  const std::vector<uint64_t>& late_by_rank() const { return late_by_rank_; }
  // Slots of the cell that has most; at most MaxSlots().
  size_t slots() const;
  size_t MaxSlots() const;
  // Ranks whose contribution to the oldest open slot is missing, for messages.
  std::vector<uint32_t> Missing() const;

 private:
  struct Slot {
    std::unique_ptr<CellSum> sum;  // while open
    std::vector<uint64_t> come;    // by rank: the incarnation that has come (or came late), or 0
    std::vector<bool> added;       // by rank: it is in the sum
    uint32_t contributors = 0;     // how many are
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
  // The slot of a contribution, opened if need be; null where it is stale or early.
  Slot* SlotFor(Peer from, CellState* state, const pb::Contribution& c, Sends* out);
  bool HasRoomFor(const CellState& state, uint64_t round) const;
  void StartSlot(const CellState& state, uint64_t round, Slot* slot) const;
  void CountIn(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
               const Bytes& payload, Sends* out);
  void CountClosed(Slot* slot, const pb::Contribution& c);
  // A contribution that takes part; false where it was refused.
  bool AddTo(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
             const Bytes& payload, Sends* out);
  // Whether all that are in the sum are members no more.
  bool IsOfThoseGone(const Slot& slot) const;
  // Open slots of a cell of members start again where one of those gone is in them.
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
  // What closed without it, perhaps, and it has not applied.
  void SendWhatItMissed(const LaneMember& member, Sends* out) const;
  void OpenIfComplete(Sends* out);
  void Welcome(Peer to, Sends* out) const;
  void AdvanceFloor();
  // To those whose contributions found no room: there is some now.
  void AskAgain(Sends* out);
  CellState* Find(const Cell& cell);

  Options options_;
  std::map<Cell, CellState> cells_;
  LaneMembers members_;
  uint64_t floor_ = 0;
  bool open_ = false;
  // Of a blank lane: the newest round that a member said it holds an outcome of.
  uint64_t held_until_ = 0;
  bool stop_requested_ = false;
  uint64_t stop_after_ = 0;        // 0: not decided
  std::vector<bool> turned_away_;  // by rank: contributions found no room
  bool has_room_again_ = false;
  Counters counters_;
  std::vector<uint64_t> late_by_rank_;
};

}  // namespace tern::protocol
