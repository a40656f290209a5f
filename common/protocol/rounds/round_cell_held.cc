// How a RoundCell takes outcomes (answers to rounds) that workers hand back after a restart of the
// server.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/round_cell.h"

namespace tern::protocol {

namespace {

void ConfirmHeldOutcome(Peer to, Kind kind, const pb::Outcome& held, Sends* out) {
  Send send{to, {}};
  *MutableHeldOutcome(kind, &send.message.head) = held;
  out->push_back(std::move(send));
}

// Whether a worker hands back another outcome than the worker before, whose outcome the slot has.
bool DiffersFrom(const RoundSlot& slot, const pb::Outcome::OfRound& held, const Bytes& payload) {
  return slot.state() == RoundSlot::State::kRestored &&
         (slot.contributors() != held.contributors() ||
          slot.outcome().of_round().stop_after() != held.stop_after() ||
          slot.outcome().of_round().checkpoint_after() != held.checkpoint_after() ||
          slot.payload().view() != payload.view());
}

}  // namespace

Status RoundCell::CheckHeldOutcome(const pb::Outcome::OfRound& held, const Bytes& payload) const {
  uint32_t num_contributors = 0;
  for (uint32_t rank = 0; rank < lane_->members.size(); ++rank)
    num_contributors += HasContributed(held.contributor_bits(), rank);
  if (num_contributors != held.contributors()) {
    return Status(Code::kMismatch, "it names " + std::to_string(num_contributors) +
                                       " contributors and counts " +
                                       std::to_string(held.contributors()));
  }
  if (num_contributors != 0) return spec_.check_outcome(payload, num_contributors);
  return payload.empty() ? Ok() : Status(Code::kMismatch, "a sum over nobody");
}

void RoundCell::RestoreFromOutcome(Peer from, const pb::Outcome& held, const Bytes& payload,
                                   Sends* out) {
  TERN_REQUIRES(held.has_of_round(), "a cell in rounds is handed an outcome of no round");
  const Kind kind = spec_.cell.kind;
  const uint64_t round = held.of_round().round();
  const auto found = slots_.find(round);
  const bool is_closed = found != slots_.end() && found->second.closed();
  if (is_closed && round > lane_->floor && DiffersFrom(found->second, held.of_round(), payload)) {
    ++lane_->counters.bad;
    return RefuseAllMembers(
        lane_->members,
        Cat("two workers hand back different outcomes of ", ToString(spec_.cell, round)), out);
  }
  if (round <= lane_->floor || is_closed) return ConfirmHeldOutcome(from, kind, held, out);
  // This process itself closes all later rounds.
  if (round > lane_->newest_held_round) {
    ++lane_->counters.bad;
    return;
  }
  if (found == slots_.end() && !MakeRoomFor(round)) return;
  if (Status check_status = CheckHeldOutcome(held.of_round(), payload); !check_status.ok()) {
    ++lane_->counters.bad;
    out->push_back(RefusalTo(from, Code::kMismatch,
                             "the held outcome of " + ToString(spec_.cell, round) +
                                 " cannot be one: " + check_status.message(),
                             pb::Refuse::leave));
    return;
  }
  RoundSlot& slot = slots_.try_emplace(round, lane_->members.size()).first->second;
  slot.Restore(held, payload);
  if (lane_->options.learning_rate)
    slot.outcome().set_learning_rate(lane_->options.learning_rate(round));
  if (held.of_round().stop_after() != 0) lane_->last_round = held.of_round().stop_after();
  lane_->checkpoint_round = std::max(lane_->checkpoint_round, CheckpointRoundOf(held));
  ++lane_->counters.restored;
  ConfirmHeldOutcome(from, kind, held, out);
  for (const LaneMember& member : lane_->members) {
    if (member.peer != 0 && member.peer != from) SendOutcome(slot, member.peer, out);
  }
  CloseReadySlots(out);
}

}  // namespace tern::protocol
