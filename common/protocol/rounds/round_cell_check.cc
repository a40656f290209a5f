// The invariants of a RoundCell.
#include "common/base/invariants.h"
#include "common/protocol/rounds/round_cell.h"

namespace tern::protocol {

namespace {

// Checks that all contributors to this slot are still members.
Status CheckContributors(const Cell& cell, uint64_t round, const RoundSlot& slot,
                         const LaneMembers& members) {
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    const uint64_t current_incarnation = members[rank].incarnation;
    TERN_HOLDS(!slot.added(rank) || slot.arrived_incarnation(rank) == current_incarnation,
               ToString(cell, round), ": rank ", rank, " contributed as ",
               slot.arrived_incarnation(rank), ", and is a member as ", current_incarnation);
  }
  return Ok();
}

}  // namespace

Status RoundCell::CheckRounds(bool floor_moved) const {
  bool all_older_closed = true;  // whether all older slots are closed
  uint64_t previous_round = lane_->floor;
  for (const auto& [round, slot] : slots_) {
    TERN_HOLDS(round > lane_->floor, ToString(spec_.cell, round), ": kept, and the floor is ",
               lane_->floor);
    const bool follows_previous =
        !spec_.closes_every_round || (all_older_closed && round == previous_round + 1);
    const bool is_open = slot.state() == RoundSlot::State::kOpen;
    TERN_HOLDS(floor_moved || !is_open || !all_older_closed || !follows_previous ||
                   !IsReadyToClose(round, slot),
               ToString(spec_.cell, round), ": open, and has enough of ", slot.contributors(),
               " contributors");
    TERN_HOLDS(slot.state() != RoundSlot::State::kClosed || follows_previous,
               ToString(spec_.cell, round), ": closed, and round ", round - 1, " has not");
    all_older_closed &= !is_open;
    previous_round = round;
  }
  return Ok();
}

Status RoundCell::Check(bool floor_moved) const {
  TERN_HOLDS(slots_.size() <= lane_->MaxSlots(), ToString(spec_.cell, lane_->floor), ": keeps ",
             slots_.size(), " rounds, at most ", lane_->MaxSlots());
  TERN_RETURN_IF_ERROR(CheckRounds(floor_moved));
  for (const auto& [round, slot] : slots_) {
    TERN_RETURN_IF_ERROR(slot.Check(spec_.cell, round));
    const bool needs_members = lane_->IsElastic() && spec_.is_for_members_only && !slot.closed();
    if (needs_members)
      TERN_RETURN_IF_ERROR(CheckContributors(spec_.cell, round, slot, lane_->members));
  }
  return Ok();
}

}  // namespace tern::protocol
