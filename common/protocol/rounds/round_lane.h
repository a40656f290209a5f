// The state machine of one lane of a server shard in rounds: everything that arrives at one socket
// and is added up over the workers (scalers and figures on control, pushes on a data socket). One
// instance per thread.
//
// What a cell goes through in one round is drawn in round_slot.h. The first contribution opens a
// slot, enough of them close it. Repeats are dropped. An invalid one is refused, and the slot
// starts again, empty: workers repeat what is not answered.
//
// Enough contributions: of all members; with `quorum` the first that many of them; under `shrink`
// of those members that are not fetching State. A removed member is not waited for, but its
// contribution counts. A slot does not close while an older one of its cell is open. An outcome
// says who contributed.
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
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/cell_sum.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/round_cell.h"

namespace tern::protocol {

class RoundLane : public Lane {
 public:
  using Options = RoundLaneOptions;
  RoundLane(Options options, std::vector<CellSpec> cells);

  void OnMembers(const pb::Members& members, Sends* out) override;
  void OnHello(Peer from, const pb::Hello& hello, Sends* out) override;
  // Takes contributions and retained outcomes; refuses anything else.
  void OnMessage(Peer from, const Message& message, Sends* out) override;
  // A heartbeat reports what a rank has applied.
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) override;
  // The next round that closes in the leading cell is the job's last.
  void OnStop() override { state_.stop_requested = true; }
  // The job continues after `round`, whatever happened since: all slots are dropped, and all
  // members, who are told elsewhere and say hello again. The next round does not close before all
  // of them have contributed, so that they all pull the same state.
  void GoBack(uint64_t round);

  bool open() const override { return state_.open; }
  uint64_t floor() const override { return state_.floor; }
  const Counters& counters() const override { return state_.counters; }
  // By rank: contributions that arrived after their slot had closed without them.
  const std::vector<uint64_t>& late_by_rank() const { return state_.late_by_rank; }
  // The number of slots of the cell that has most; at most MaxSlots().
  size_t slots() const;
  size_t MaxSlots() const { return state_.MaxSlots(); }
  // For messages: the ranks whose contribution to the oldest open slot is missing.
  std::vector<uint32_t> Missing() const;

  // Holds after every event: a lane that is not open keeps no slot; its floor is not behind what
  // all members have applied; of each cell (RoundCell), what is kept lies beyond the floor and
  // within MaxSlots(), none that has enough stays open, and with every_round the closed rounds have
  // no gap; of each slot (RoundSlot), its sum, its count and its outcome name the same ranks.
  Status Check() const;

 private:
  friend class RoundLanePeer;  // of the tests

  void OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                      Sends* out);
  // Continues the sentence; empty if nothing is wrong. `cell`: null if the lane has none of the
  // name.
  std::string WhatIsWrong(const RoundCell* cell, const pb::Contribution& c,
                          const Bytes& payload) const;
  void OnHeld(Peer from, Kind kind, const pb::Outcome& outcome, const Bytes& payload, Sends* out);
  void OpenIfComplete(Sends* out);
  void Welcome(Peer to, Sends* out) const;
  // The least round that every member has applied; nothing while one has not shown what it has.
  std::optional<uint64_t> LeastApplied() const;
  void AdvanceFloor();
  // After the floor has moved: closes what has enough, and tells workers whose contributions were
  // refused for lack of room that there is room now. (OnApplied leaves it to the next event.)
  void AskAgain(Sends* out);
  void AskThoseTurnedAway(Sends* out);
  RoundCell* Find(const Cell& cell);

  RoundLaneState state_;
  std::map<Cell, RoundCell> cells_;
  bool has_room_again_ = false;
};

}  // namespace tern::protocol
