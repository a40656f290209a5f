// How the slots of a lane close: with enough contributions, or by an outcome that a worker hands
// back.
#include <algorithm>
#include <string>
#include <utility>

#include "common/protocol/rounds/round_lane.h"

namespace tern::protocol {

namespace {

// A bit a rank, least first.
std::string WhoBytes(const std::vector<bool>& ranks) {
  std::string bytes((ranks.size() + 7) / 8, '\0');
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank]) bytes[rank / 8] = static_cast<char>(bytes[rank / 8] | 1 << (rank % 8));
  }
  return bytes;
}

bool IsIn(const std::string& who, uint32_t rank) {
  return rank / 8 < who.size() &&
         (static_cast<unsigned char>(who[rank / 8]) >> (rank % 8) & 1) != 0;
}

}  // namespace

bool RoundLane::HasEnough(const CellState& state, uint64_t round, const Slot& slot) const {
  uint32_t required = 0, come = 0;
  bool all = true;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    come += slot.come[rank] != 0;
    if (!IsRequired(members_[rank])) continue;
    ++required;
    all &= slot.come[rank] != 0;
  }
  if (come == 0) return false;
  if (all) return true;
  if (options_.quorum == 0 || state.spec.waits_for_all || round <= held_until_) return false;
  return come >= std::min(options_.quorum, required);
}

void RoundLane::CloseWhatHasEnough(CellState* state, Sends* out) {
  uint64_t before = floor_;
  for (auto& [round, slot] : state->slots) {
    if (!slot.closed) {
      if (state->spec.every_round && round != before + 1) return;
      if (!HasEnough(*state, round, slot)) return;
      Close(state, round, &slot, out);
    }
    before = round;
  }
}

void RoundLane::Close(CellState* cell, uint64_t round, Slot* slot, Sends* out) {
  slot->closed = true;
  if (slot->contributors != 0 || cell->spec.every_round) slot->payload = slot->sum->Close();
  slot->sum.reset();
  ++counters_.closed;
  if (options_.leads && stop_requested_ && stop_after_ == 0 && cell == &cells_.begin()->second) {
    // Nobody can have passed it. (A step may have begun without this outcome, but for its pushes.)
    stop_after_ = round + options_.window;
  }
  pb::Outcome& outcome = slot->outcome;
  outcome.set_round(round);
  outcome.set_bucket(cell->spec.cell.bucket);
  outcome.set_chunk(cell->spec.cell.chunk);
  outcome.set_contributors(slot->contributors);
  outcome.set_who(WhoBytes(slot->added));
  if (options_.learning_rate) outcome.set_learning_rate(options_.learning_rate(round));
  if (stop_after_ != 0) outcome.set_stop_after(stop_after_);
  for (const LaneMember& member : members_) {
    if (member.peer != 0) SendOutcome(*cell, *slot, member.peer, out);
  }
  if (!options_.safeguards.keep_until_applied) slot->payload = Bytes();
}

void RoundLane::SendOutcome(const CellState& cell, const Slot& slot, Peer to, Sends* out) const {
  Send send{to, {}};
  pb::Outcome* outcome = MutableOutcome(cell.spec.cell.kind, &send.message.head);
  *outcome = slot.outcome;
  outcome->set_floor(floor_);
  send.message.payload = slot.payload;
  out->push_back(std::move(send));
}

void RoundLane::SendWhatItMissed(const LaneMember& member, Sends* out) const {
  for (const auto& [cell, state] : cells_) {
    for (const auto& [round, slot] : state.slots) {
      if (slot.closed && round > member.applied) SendOutcome(state, slot, member.peer, out);
    }
  }
}

Status RoundLane::CheckHeld(const CellState& state, const pb::Outcome& held,
                            const Bytes& payload) const {
  uint32_t contributors = 0;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) contributors += IsIn(held.who(), rank);
  if (contributors != held.contributors()) {
    return Status(Code::kMismatch, "it names " + std::to_string(contributors) +
                                       " contributors and counts " +
                                       std::to_string(held.contributors()));
  }
  if (contributors != 0) return state.spec.check_outcome(payload, contributors);
  return payload.empty() ? Ok() : Status(Code::kMismatch, "a sum over nobody");
}

void RoundLane::OnHeld(Peer from, Kind kind, const pb::Outcome& held, const Bytes& payload,
                       Sends* out) {
  CellState* state = Find({kind, held.bucket(), held.chunk()});
  if (!members_.IsPeer(from) || !open_ || state == nullptr) return;
  const auto found = state->slots.find(held.round());
  const bool closed = found != state->slots.end() && found->second.closed;
  if (held.round() <= floor_ || closed) return SendTaken(from, kind, held, out);
  if (found == state->slots.end() && !HasRoomFor(*state, held.round())) return;
  if (Status checked = CheckHeld(*state, held, payload); !checked.ok()) {
    ++counters_.bad;
    out->push_back(
        {from, MakeRefuse(static_cast<int>(Code::kMismatch),
                          "the held outcome of " + ToString(state->spec.cell, held.round()) +
                              " cannot be one: " + checked.message(),
                          pb::Refuse::leave)});
    return;
  }
  Slot& slot = state->slots[held.round()];
  StartSlot(*state, held.round(), &slot);
  slot.sum.reset();
  slot.closed = true;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (!IsIn(held.who(), rank)) continue;
    slot.added[rank] = true;
    slot.come[rank] = 1;  // some incarnation
  }
  slot.contributors = held.contributors();
  slot.outcome = held;
  slot.outcome.set_who(WhoBytes(slot.added));
  if (options_.learning_rate) slot.outcome.set_learning_rate(options_.learning_rate(held.round()));
  slot.payload = payload;
  if (held.stop_after() != 0) stop_after_ = held.stop_after();
  ++counters_.restored;
  SendTaken(from, kind, held, out);
  for (const LaneMember& m : members_) {
    if (m.peer != 0 && m.peer != from) SendOutcome(*state, slot, m.peer, out);
  }
  CloseWhatHasEnough(state, out);
}

void RoundLane::SendTaken(Peer to, Kind kind, const pb::Outcome& held, Sends* out) const {
  Send send{to, {}};
  *MutableHeldOutcome(kind, &send.message.head) = held;
  out->push_back(std::move(send));
}

}  // namespace tern::protocol
