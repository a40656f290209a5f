#include "common/protocol/lane.h"

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

Lane::Lane(Options options, std::vector<CellSpec> cells)
    : options_(std::move(options)), members_(options_.workers) {
  for (CellSpec& spec : cells) {
    const Cell cell = spec.cell;
    cells_[cell].spec = std::move(spec);
  }
}

void Lane::OnMembers(const pb::Members& members, Sends* out) {
  if (members.epoch() < epoch_) return;
  epoch_ = members.epoch();
  const size_t ranks = std::min<size_t>(members_.size(), members.incarnations_size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    Member& member = members_[rank];
    const uint64_t incarnation = members.incarnations(static_cast<int>(rank));
    if (incarnation == 0 || incarnation == member.incarnation) continue;
    // Whoever comes may hold State as old as the floor: it stands still until the newcomer shows
    // what it has.
    member = Member{};
    member.incarnation = incarnation;
  }
  OpenIfComplete(out);
}

void Lane::OnHello(Peer from, const pb::Hello& hello, Sends* out) {
  if (hello.rank() >= members_.size() ||
      members_[hello.rank()].incarnation != hello.incarnation()) {
    // The membership may still be on its way to this shard.
    out->push_back(Refuse(from, kNotAllowed, "this incarnation is not (or no longer) a member",
                          pb::Refuse::retry));
    return;
  }
  Member& member = members_[hello.rank()];
  member.peer = from;
  member.greeted = true;
  if (!hello.fresh()) {
    member.known = true;
    member.applied = std::max(member.applied, hello.applied());
  }
  if (open_) {
    AdvanceFloor();
    Welcome(from, out);
  } else {
    OpenIfComplete(out);
  }
}

void Lane::OpenIfComplete(Sends* out) {
  if (open_ || epoch_ == 0) return;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Member& member : members_) {
    if (!member.greeted) return;
    // Who has not shown what it has may be getting State older than what the others have by now.
    least = member.known ? std::min(least, member.applied) : 0;
  }
  open_ = true;
  floor_ = least;
  for (const Member& member : members_) Welcome(member.peer, out);
}

void Lane::Welcome(Peer to, Sends* out) const {
  if (!options_.welcomes) return;
  Send send{to, {}};
  pb::Welcome* welcome = send.message.head.mutable_welcome();
  welcome->set_incarnation(options_.incarnation);
  welcome->set_epoch(epoch_);
  for (uint32_t port : options_.data_ports) welcome->add_data_ports(port);
  out->push_back(std::move(send));
}

Lane::Member* Lane::FencedMember(uint32_t rank, uint64_t incarnation) {
  if (rank >= members_.size()) return nullptr;
  if (options_.safeguards.fence_incarnations && members_[rank].incarnation != incarnation)
    return nullptr;
  return &members_[rank];
}

void Lane::OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) {
  Member* member = FencedMember(rank, incarnation);
  if (member == nullptr) return;
  member->known = true;
  member->applied = std::max(member->applied, applied);
  if (open_) AdvanceFloor();
}

void Lane::AdvanceFloor() {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Member& member : members_) {
    if (!member.known) return;
    least = std::min(least, member.applied);
  }
  if (least <= floor_) return;
  floor_ = least;
  for (auto& [cell, state] : cells_)
    state.slots.erase(state.slots.begin(), state.slots.upper_bound(floor_));
}

Lane::CellState* Lane::Find(const Cell& cell) {
  const auto found = cells_.find(cell);
  return found == cells_.end() ? nullptr : &found->second;
}

void Lane::OnMessage(Peer from, const Message& message, Sends* out) {
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
}

void Lane::OnContribution(Peer from, Kind kind, const pb::Contribution& c, const Bytes& payload,
                          Sends* out) {
  const Cell cell{kind, c.bucket(), c.chunk()};
  Member* member = FencedMember(c.rank(), c.incarnation());
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
  if (state == nullptr || c.applied() >= c.round() || c.round() > c.applied() + options_.window) {
    ++counters_.bad;
    out->push_back(Refuse(from, kMismatch,
                          ToString(cell, c.round()) + " (applied " + std::to_string(c.applied()) +
                              ") is not in this lane's plan",
                          pb::Refuse::leave));
    return;
  }
  member->known = true;
  member->applied = std::max(member->applied, c.applied());
  AdvanceFloor();
  if (Slot* slot = SlotFor(from, state, c, out)) CountIn(from, state, slot, c, payload, out);
}

Lane::Slot* Lane::SlotFor(Peer from, CellState* state, const pb::Contribution& c, Sends* out) {
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
  // Members are at most `window` rounds apart, plus the rounds that a replaced member had
  // contributed to.
  if (state->slots.size() >= 2 * options_.window + 2) {
    ++counters_.early;
    out->push_back(
        Refuse(from, kNotAllowed, ToString(cell, c.round()) + " is early", pb::Refuse::ignore));
    return nullptr;
  }
  Slot& slot = state->slots[c.round()];
  slot.sum = state->spec.open();
  slot.counted.assign(members_.size(), false);
  slot.digest = c.digest();
  return &slot;
}

void Lane::CountIn(Peer from, CellState* state, Slot* slot, const pb::Contribution& c,
                   const Bytes& payload, Sends* out) {
  const Cell& cell = state->spec.cell;
  if (slot->closed) {
    ++counters_.repeated;
    if (options_.safeguards.keep_until_applied) SendOutcome(*state, *slot, from, out);
    return;
  }
  if (slot->counted[c.rank()] && options_.safeguards.count_once) {
    ++counters_.repeated;
    return;
  }
  if (slot->digest != c.digest()) {
    ++counters_.bad;
    out->push_back(Refuse(from, kMismatch,
                          ToString(cell, c.round()) + " was coded with scalers " + Hex(c.digest()) +
                              ", others with " + Hex(slot->digest),
                          pb::Refuse::leave));
    return;
  }
  if (Status added = slot->sum->Add(c.rank(), payload); !added.ok()) {
    ++counters_.bad;
    // It may be half added: empty the slot, everybody else will repeat.
    state->slots.erase(c.round());
    out->push_back(Refuse(
        from, ExitCode(added),
        ToString(cell, c.round()) + " of rank " + std::to_string(c.rank()) + ": " + added.message(),
        pb::Refuse::leave));
    return;
  }
  ++counters_.counted;
  slot->counted[c.rank()] = true;
  if (++slot->count == members_.size()) Close(state, c.round(), slot, out);
}

void Lane::Close(CellState* cell, uint64_t round, Slot* slot, Sends* out) {
  slot->closed = true;
  slot->payload = slot->sum->Close();
  slot->sum.reset();
  ++counters_.closed;
  if (options_.leads && stop_requested_ && stop_after_ == 0 && cell == &cells_.begin()->second) {
    stop_after_ =
        round + options_.window - 1;  // nobody can have passed it: this outcome was needed first
  }
  pb::Outcome& outcome = slot->outcome;
  outcome.set_round(round);
  outcome.set_bucket(cell->spec.cell.bucket);
  outcome.set_chunk(cell->spec.cell.chunk);
  outcome.set_contributors(slot->count);
  if (options_.learning_rate) outcome.set_learning_rate(options_.learning_rate(round));
  if (stop_after_ != 0) outcome.set_stop_after(stop_after_);
  for (const Member& member : members_) {
    if (member.peer != 0) SendOutcome(*cell, *slot, member.peer, out);
  }
  if (!options_.safeguards.keep_until_applied) slot->payload = Bytes();
}

void Lane::SendOutcome(const CellState& cell, const Slot& slot, Peer to, Sends* out) const {
  Send send{to, {}};
  pb::Outcome* outcome = MutableOutcome(cell.spec.cell.kind, &send.message.head);
  *outcome = slot.outcome;
  outcome->set_floor(floor_);
  send.message.payload = slot.payload;
  out->push_back(std::move(send));
}

void Lane::OnHeld(Peer from, Kind kind, const pb::Outcome& held, const Bytes& payload, Sends* out) {
  const bool member = std::any_of(members_.begin(), members_.end(),
                                  [&](const Member& m) { return m.peer == from; });
  CellState* state = Find({kind, held.bucket(), held.chunk()});
  if (!member || !open_ || state == nullptr) return;
  const auto found = state->slots.find(held.round());
  const bool closed = found != state->slots.end() && found->second.closed;
  if (held.round() <= floor_ || closed) return SendTaken(from, kind, held, out);
  if (found == state->slots.end() && state->slots.size() >= 2 * options_.window + 2) return;
  if (Status checked = state->spec.check_outcome(payload);
      !checked.ok() || held.contributors() != members_.size()) {
    ++counters_.bad;
    out->push_back(Refuse(from, kMismatch,
                          "the held outcome of " + ToString(state->spec.cell, held.round()) +
                              " cannot be one: " + checked.message(),
                          pb::Refuse::leave));
    return;
  }
  Slot& slot = state->slots[held.round()];
  slot.sum.reset();
  slot.closed = true;
  slot.count = held.contributors();
  slot.counted.assign(members_.size(), true);
  slot.outcome = held;
  slot.payload = payload;
  if (held.stop_after() != 0) stop_after_ = held.stop_after();
  ++counters_.restored;
  SendTaken(from, kind, held, out);
  for (const Member& m : members_) {
    if (m.peer != 0 && m.peer != from) SendOutcome(*state, slot, m.peer, out);
  }
}

void Lane::SendTaken(Peer to, Kind kind, const pb::Outcome& held, Sends* out) const {
  Send send{to, {}};
  *MutableHeldOutcome(kind, &send.message.head) = held;
  out->push_back(std::move(send));
}

size_t Lane::slots() const {
  size_t most = 0;
  for (const auto& [cell, state] : cells_) most = std::max(most, state.slots.size());
  return most;
}

std::vector<uint32_t> Lane::Missing() const {
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
    if (!oldest->counted[rank]) missing.push_back(rank);
  }
  return missing;
}

}  // namespace tern::protocol
