// A lane (the state machine behind one socket) of a server shard in a job with rounds. It adds up
// over the workers what arrives at the socket: on the control lane (lane 0) scalers (the codecs'
// scale factors) and figures (the workers' metrics), on a data lane pushes. One thread calls it.
//
// A cell is one reduction over the workers; a slot is one cell in one round; round_slot.h has the
// diagram of its states. The first contribution opens a slot, and enough contributions close it.
// Repeated contributions are ignored. An invalid contribution is refused, and its slot starts
// again, empty; workers repeat what is not answered.
//
// Which contributions are enough depends on the options. By default all members must contribute.
// With `quorum`, the first `quorum` contributions are enough. If lost members are removed
// (`shrink`), the slot waits for all members that are not fetching State (all that a worker needs
// to continue). A slot does not wait for a removed member, but the contribution that the member
// made before its removal counts (except in a cell with CellSpec::is_for_members_only, which starts
// the slot again; with `quorum`, it does so for a replaced member, too). A slot does not close
// while an older slot of its cell is open. The outcome (answer) of a slot names the ranks that
// contributed.
//
// An outcome is final once any worker has it, even if the server restarts and loses it. So if a
// member may keep an outcome of a round, a restarted lane closes that round only when all members
// have contributed. A member that keeps the outcome does not contribute; it hands the outcome back.
//
// The floor is the newest round that all members have applied. It does not move while a new member
// has not reported what it has applied, because that member's State may be as old as the floor. A
// lane opens when every member has said hello on it. So a restarted server knows its floor before
// it accepts contributions; the floor is 0 if a member has not reported what it has applied.
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
  // Handles contributions, and outcomes that workers hand back; refuses any other message.
  void OnMessage(Peer from, const Message& message, Sends* out) override;
  // A heartbeat reports that a rank has applied all rounds up to `applied`.
  void OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) override;
  // Ends the job soon. If Options::decides_last_round is true: when the next round r closes in any
  // cell (a job that exchanges parts of the model may close few rounds in a cell), r +
  // Options::window becomes the job's last round.
  void OnStop() override { state_.stop_requested = true; }
  // If Options::decides_last_round is true: when the next round r closes in any cell, that cell
  // decides that all daemons write a checkpoint after round r + window.
  void OnCheckpointRequest() override { state_.checkpoint_requested = true; }
  // The job goes back to its state after `round`. Drops all slots and forgets all members, which
  // say hello again. The next round closes only when all members have contributed, so that all of
  // them pull the same state first.
  void GoBack(uint64_t round);

  // While its status is an error, the lane sends no outcomes; it sends some again once it has gone
  // back.
  const Agreement& agreement() const { return state_.agreement; }
  bool open() const override { return state_.is_open; }
  uint64_t floor() const override { return state_.floor; }
  const Counters& counters() const override { return state_.counters; }
  // By rank: how many contributions arrived after their slot had closed.
  const std::vector<uint64_t>& late_by_rank() const { return state_.late_by_rank; }
  // The largest number of slots that a cell has; at most MaxSlots().
  size_t LargestNumSlots() const;
  size_t MaxSlots() const { return state_.MaxSlots(); }

  // These invariants hold after every event. Lane: it has no slots while it is not open; its floor
  // is at least the newest round that all members have applied. Each cell: its slots are of rounds
  // beyond the floor, and at most MaxSlots(); if the floor has not just moved, the oldest open slot
  // needs more contributions or (closes_every_round) an older round; with closes_every_round, a
  // slot closes only after all older rounds. Each slot: its sum, its count and its outcome name the
  // same ranks.
  Status Check() const;

 private:
  friend class RoundLanePeer;  // for tests

  void OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                      Sends* out);
  // Returns what is wrong with the contribution, as text to append to the contribution's
  // description; empty if the contribution is valid. `cell`: null if the lane does not have the
  // contribution's cell.
  std::string WhatIsWrong(const RoundCell* cell, const pb::Contribution& c,
                          const Bytes& payload) const;
  void OnHeldOutcome(Peer from, Kind kind, const pb::Outcome& outcome, const Bytes& payload,
                     Sends* out);
  void OpenIfComplete(Sends* out);
  // The minimum over the members of what each has applied; nullopt while a member has not reported
  // it.
  std::optional<uint64_t> LeastApplied() const;
  void AdvanceFloor();
  // If the floor has moved: closes slots that are ready now, and tells workers whose contributions
  // were refused for now to send them again. (OnApplied leaves this to the next event.)
  void OnFloorMoved(Sends* out);
  void TellRefusedToResend(Sends* out);
  RoundCell* FindCell(const Cell& cell);

  RoundLaneState state_;
  std::map<Cell, RoundCell> cells_;
  bool floor_moved_ = false;
  uint32_t laggard_ = 0;  // the rank that was last found to keep the floor from moving
};

}  // namespace tern::protocol
