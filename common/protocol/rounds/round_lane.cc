#include "common/protocol/rounds/round_lane.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/hash.h"

namespace tern::protocol {

namespace {

constexpr int kMismatch = static_cast<int>(Code::kMismatch);
constexpr int kNotAllowed = static_cast<int>(Code::kNotAllowed);

Send Refuse(Peer to, int code, std::string sentence, pb::Refuse::Then then) {
  return {to, MakeRefuse(code, std::move(sentence), then)};
}

}  // namespace

RoundLane::RoundLane(Options options, std::vector<CellSpec> cells)
    : options_(std::move(options)),
      members_(options_.workers),
      turned_away_(options_.workers),
      late_by_rank_(options_.workers) {
  for (CellSpec& spec : cells) {
    const Cell cell = spec.cell;
    cells_[cell].spec = std::move(spec);
  }
}

void RoundLane::OnMembers(const pb::Members& members, Sends* out) {
  members_.OnMembers(members);
  if (!open_) return OpenIfComplete(out);
  AdvanceFloor();
  AskAgain(out);
  // Somebody whom they waited for may be gone.
  for (auto& [cell, state] : cells_) {
    if (options_.shrink && state.spec.of_members) DropThoseGone(&state);
    CloseWhatHasEnough(&state, out);
  }
}

void RoundLane::OnHello(Peer from, const pb::Hello& hello, Sends* out) {
  const LaneMember* member = members_.OnHello(from, hello, out);
  if (member == nullptr) return;
  if (!open_) {
    held_until_ = std::max(held_until_, hello.holds());
    return OpenIfComplete(out);
  }
  AdvanceFloor();
  Welcome(from, out);
  AskAgain(out);
  if (IsElastic() && member->known) SendWhatItMissed(*member, out);
}

void RoundLane::OpenIfComplete(Sends* out) {
  if (open_ || !members_.complete()) return;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const LaneMember& member : members_) {
    // Who has not shown what it has may be getting State older than what the others have by now.
    if (member.present()) least = member.known ? std::min(least, member.applied) : 0;
    if (member.present() && !member.known) break;
  }
  if (least == std::numeric_limits<uint64_t>::max()) return;  // everybody was removed
  open_ = true;
  floor_ = std::max(floor_, least);
  for (const LaneMember& member : members_) {
    if (member.present()) Welcome(member.peer, out);
  }
}

void RoundLane::GoBack(uint64_t round) {
  for (auto& [cell, state] : cells_) state.slots.clear();
  members_ = LaneMembers(options_.workers);
  open_ = false;
  floor_ = round;
  held_until_ = round + 1;
  stop_after_ = 0;
  turned_away_.assign(options_.workers, false);
  has_room_again_ = false;
}

void RoundLane::Welcome(Peer to, Sends* out) const {
  if (!options_.welcomes) return;
  out->push_back(
      {to, MakeLaneWelcome(options_.incarnation, members_.epoch(), options_.data_ports)});
}

void RoundLane::OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) {
  LaneMember* member = members_.Find(rank, incarnation, options_.safeguards.fence_incarnations);
  if (member == nullptr) return;
  LaneMembers::ShowApplied(member, applied);
  if (open_) AdvanceFloor();
}

void RoundLane::AdvanceFloor() {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const LaneMember& member : members_) {
    if (!member.present()) continue;
    if (!member.known) return;
    least = std::min(least, member.applied);
  }
  if (least <= floor_ || least == std::numeric_limits<uint64_t>::max()) return;
  floor_ = least;
  has_room_again_ = true;
  for (auto& [cell, state] : cells_)
    state.slots.erase(state.slots.begin(), state.slots.upper_bound(floor_));
}

void RoundLane::AskAgain(Sends* out) {
  if (!std::exchange(has_room_again_, false)) return;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (!turned_away_[rank]) continue;
    turned_away_[rank] = false;
    if (members_[rank].peer != 0)
      out->push_back(Refuse(members_[rank].peer, 0, "there is room again", pb::Refuse::again));
  }
}

RoundLane::CellState* RoundLane::Find(const Cell& cell) {
  const auto found = cells_.find(cell);
  return found == cells_.end() ? nullptr : &found->second;
}

void RoundLane::OnMessage(Peer from, const Message& message, Sends* out) {
  Kind kind;
  if (const pb::Contribution* c = AsContribution(message.head, &kind)) {
    OnContribution(from, kind, *c, message.payload, out);
  } else if (const pb::Outcome* held = AsHeldOutcome(message.head, &kind)) {
    OnHeld(from, kind, *held, message.payload, out);
  } else {
    ++counters_.bad;
    out->push_back(
        Refuse(from, kMismatch, "a message of this type does not belong here", pb::Refuse::ignore));
  }
  if (open_) AskAgain(out);
}

void RoundLane::OnContribution(Peer from, Kind kind, const pb::Contribution& c,
                               const Bytes& payload, Sends* out) {
  const Cell cell{kind, c.bucket(), c.chunk()};
  LaneMember* member =
      members_.Find(c.rank(), c.incarnation(), options_.safeguards.fence_incarnations);
  if (member == nullptr) {
    ++counters_.fenced;
    out->push_back(Refuse(from, kNotAllowed,
                          ToString(cell, c.round()) + " came from an incarnation of rank " +
                              std::to_string(c.rank()) + " that is not a member",
                          pb::Refuse::ignore));
    return;
  }
  if (!open_) return;  // it will come again: its sender has not been welcomed
  CellState* state = Find(cell);
  if (state != nullptr && state->spec.pull && c.pull_only()) return OnPull(from, *state, c, out);
  const bool in_window = c.applied() < c.round() && c.round() <= c.applied() + options_.window;
  if (state == nullptr || !(in_window || c.late())) {
    ++counters_.bad;
    out->push_back(Refuse(from, kMismatch,
                          ToString(cell, c.round()) + " (applied " + std::to_string(c.applied()) +
                              ") is not in this lane's plan",
                          pb::Refuse::leave));
    return;
  }
  if (c.late()) {  // before the floor takes the slot away
    const auto found = state->slots.find(c.round());
    if (found != state->slots.end() && found->second.closed) CountClosed(&found->second, c);
  }
  LaneMembers::ShowApplied(member, c.applied());
  AdvanceFloor();
  if (c.late()) return;
  if (Slot* slot = SlotFor(from, state, c, out)) CountIn(from, state, slot, c, payload, out);
}

void RoundLane::OnPull(Peer from, const CellState& state, const pb::Contribution& c, Sends* out) {
  Send send{from, {}};
  pb::Outcome* outcome = MutableOutcome(state.spec.cell.kind, &send.message.head);
  outcome->set_bucket(c.bucket());
  outcome->set_chunk(c.chunk());
  outcome->set_round(floor_);
  outcome->set_pulled(true);
  outcome->set_pull(c.round());
  CellSpec::Pulled pulled = state.spec.pull(c.average());
  if (pulled.whole) outcome->set_whole(true);
  if (c.average()) outcome->set_average(true);
  send.message.payload = std::move(pulled.payload);
  out->push_back(std::move(send));
}

RoundLane::Slot* RoundLane::SlotFor(Peer from, CellState* state, const pb::Contribution& c,
                                    Sends* out) {
  const Cell& cell = state->spec.cell;
  if (c.round() <= floor_) {  // everybody has applied it
    ++counters_.stale;
    out->push_back(
        Refuse(from, kNotAllowed,
               ToString(cell, c.round()) + " is stale: the floor is " + std::to_string(floor_),
               pb::Refuse::ignore));
    out->back().message.head.mutable_refuse()->set_floor(floor_);
    return nullptr;
  }
  if (const auto found = state->slots.find(c.round()); found != state->slots.end()) {
    return &found->second;
  }
  if (!HasRoomFor(*state, c.round())) {
    ++counters_.early;
    if (IsElastic()) {
      turned_away_[c.rank()] = true;
    } else {
      out->push_back(
          Refuse(from, kNotAllowed, ToString(cell, c.round()) + " is early", pb::Refuse::ignore));
    }
    return nullptr;
  }
  Slot& slot = state->slots[c.round()];
  StartSlot(*state, c.round(), &slot);
  return &slot;
}

size_t RoundLane::MaxSlots() const {
  // Members are at most `window` rounds apart, plus the rounds that a replaced member had
  // contributed to.
  const size_t lockstep = 2 * size_t{options_.window} + 2;
  if (!IsElastic()) return lockstep;
  return std::max<size_t>(lockstep, options_.max_ahead) + options_.window;
}

bool RoundLane::HasRoomFor(const CellState& state, uint64_t round) const {
  if (!IsElastic()) return state.slots.size() < MaxSlots();
  // The last `window` are for whoever is slowest: the floor moves only with it.
  const bool slowest = round <= floor_ + options_.window;
  return state.slots.size() + (slowest ? 0 : options_.window) < MaxSlots();
}

void RoundLane::StartSlot(const CellState& state, uint64_t round, Slot* slot) const {
  *slot = Slot{};
  slot->sum = state.spec.open(round);
  slot->come.assign(members_.size(), 0);
  slot->added.assign(members_.size(), false);
}

void RoundLane::CountIn(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
                        const Bytes& payload, Sends* out) {
  if (slot->closed) {
    CountClosed(slot, c);
    if (options_.safeguards.keep_until_applied) SendOutcome(*state, *slot, from, out);
    return;
  }
  if (slot->come[c.rank()] != 0 && options_.safeguards.count_once) {
    ++counters_.repeated;
    return;
  }
  if (c.skip() && !payload.empty()) {
    ++counters_.bad;
    out->push_back(Refuse(from, kMismatch,
                          ToString(state->spec.cell, c.round()) + " of rank " +
                              std::to_string(c.rank()) +
                              " takes no part, as it says, but has a payload",
                          pb::Refuse::leave));
    return;
  }
  if (c.skip()) {
    ++counters_.skipped;
  } else if (!AddTo(from, state, slot, c, payload, out)) {
    return;
  }
  slot->come[c.rank()] = c.incarnation();
  CloseWhatHasEnough(state, out);
}

void RoundLane::CountClosed(Slot* slot, const pb::Contribution& c) {
  if (slot->come[c.rank()] != 0 || c.skip()) {
    ++counters_.repeated;
    return;
  }
  slot->come[c.rank()] = c.incarnation();
  ++counters_.late;
  ++late_by_rank_[c.rank()];
}

bool RoundLane::AddTo(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
                      const Bytes& payload, Sends* out) {
  const Cell& cell = state->spec.cell;
  if (slot->contributors != 0 && slot->digest != c.digest()) {
    if (!options_.shrink || !IsOfThoseGone(*slot)) {
      ++counters_.bad;
      out->push_back(Refuse(from, kMismatch,
                            ToString(cell, c.round()) + " was coded with scalers " +
                                Hex(c.digest()) + ", others with " + Hex(slot->digest),
                            pb::Refuse::leave));
      return false;
    }
    // Nobody who is left has those scalers: their server lost them, and they with it.
    StartSlot(*state, c.round(), slot);
  }
  if (Status added = slot->sum->Add(c.rank(), payload); !added.ok()) {
    ++counters_.bad;
    // It may be half added: empty the slot, everybody else will repeat.
    state->slots.erase(c.round());
    out->push_back(Refuse(
        from, ExitCode(added),
        ToString(cell, c.round()) + " of rank " + std::to_string(c.rank()) + ": " + added.message(),
        pb::Refuse::leave));
    return false;
  }
  ++counters_.counted;
  slot->digest = c.digest();
  slot->added[c.rank()] = true;
  ++slot->contributors;
  return true;
}

bool RoundLane::IsOfThoseGone(const Slot& slot) const {
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (slot.added[rank] && members_[rank].incarnation == slot.come[rank]) return false;
  }
  return true;
}

// The others repeat what is not answered.
void RoundLane::DropThoseGone(CellState* state) {
  std::erase_if(state->slots, [this](const auto& one) {
    const Slot& slot = one.second;
    for (uint32_t rank = 0; rank < members_.size() && !slot.closed; ++rank) {
      if (slot.added[rank] && members_[rank].incarnation != slot.come[rank]) return true;
    }
    return false;
  });
}

size_t RoundLane::slots() const {
  size_t most = 0;
  for (const auto& [cell, state] : cells_) most = std::max(most, state.slots.size());
  return most;
}

std::vector<uint32_t> RoundLane::Missing() const {
  const Slot* oldest = nullptr;
  uint64_t oldest_round = 0;
  for (const auto& [cell, state] : cells_) {
    for (const auto& [round, slot] : state.slots) {
      if (slot.closed || (oldest != nullptr && oldest_round <= round)) continue;
      oldest = &slot;
      oldest_round = round;
    }
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; oldest != nullptr && rank < members_.size(); ++rank) {
    if (oldest->come[rank] == 0 && IsRequired(members_[rank])) missing.push_back(rank);
  }
  return missing;
}

}  // namespace tern::protocol
