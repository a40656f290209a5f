#include "common/protocol/rounds/round_lane.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/invariants.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/host_sums.h"

namespace tern::protocol {

namespace {

// The newest round whose result the sender has applied, as the contribution says; nullopt if the
// contribution is not to a round.
std::optional<uint64_t> AppliedBy(const pb::Contribution& c) {
  switch (c.form_case()) {
    case pb::Contribution::kInRound:
      return c.in_round().applied();
    case pb::Contribution::kSkip:
      return c.skip().applied();
    case pb::Contribution::kLate:
      return c.late().applied();
    default:
      return std::nullopt;
  }
}

// Records, for each contributor, the applied round that the message reports. `sender` sent the
// message. Returns whether all of them are members.
bool SetAppliedOfContributors(const pb::Contribution& c, LaneMember* sender, LaneMembers* members) {
  const uint64_t applied = *AppliedBy(c);
  if (!IsPartialSum(c)) LaneMembers::SetApplied(sender, applied);
  if (!IsPartialSum(c)) return true;
  bool are_members = true;
  for (const Contributor& each : ContributorsOf(c)) {
    LaneMember* member = members->FindMember(each.rank, each.incarnation, true);
    are_members = are_members && member != nullptr;
    if (member != nullptr) LaneMembers::SetApplied(member, applied);
  }
  return are_members;
}

// Lists the contributions of this rank that the open slots have.
void AddCounted(const std::map<Cell, RoundCell>& cells, uint32_t rank, pb::Welcome* welcome) {
  for (const auto& [name, cell] : cells) {
    for (const auto& [round, slot] : cell.slots()) {
      if (!slot.closed() && slot.arrived_incarnation(rank) != 0) AddCounted(name, round, welcome);
    }
  }
}

void SendWelcome(const RoundLaneState& state, Peer to, Sends* out) {
  const RoundLaneOptions& options = state.options;
  if (!options.answers_hellos) return;
  out->push_back(
      {to, MakeLaneWelcome(options.incarnation, state.members.epoch(), options.data_ports)});
}

}  // namespace

RoundLane::RoundLane(Options options, std::vector<CellSpec> cells) : state_(std::move(options)) {
  for (CellSpec& spec : cells) {
    const Cell cell = spec.cell;
    cells_.try_emplace(cell, std::move(spec), &state_);
  }
}

void RoundLane::OnMembers(const pb::Members& members, Sends* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  const bool is_newer = members.epoch() > state_.members.epoch();
  state_.members.OnMembers(members);
  if (!state_.is_open) return OpenIfComplete(out);
  AdvanceFloor();
  OnFloorMoved(out);
  // Slots may have waited for a member that was removed.
  for (auto& [cell_name, cell] : cells_) {
    cell.DropSlotsOfRemovedMembers();
    cell.CloseReadySlots(out);
  }
  if (is_newer) TellRefusedToResend(out);
}

void RoundLane::OnHello(Peer from, const pb::Hello& hello, Sends* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  const LaneMember* member = state_.members.OnHello(from, hello, out);
  if (member == nullptr) return;
  if (!state_.is_open) {
    state_.newest_held_round = std::max(state_.newest_held_round, hello.newest_held());
    // An earlier process of this shard has decided the last round.
    if (state_.options.decides_last_round && state_.last_round == 0)
      state_.last_round = hello.stop_after();
    return OpenIfComplete(out);
  }
  AdvanceFloor();
  SendWelcome(state_, from, out);
  if (hello.has_probe() && state_.options.answers_hellos) {
    pb::Welcome* welcome = out->back().message.head.mutable_welcome();
    welcome->set_probe(hello.probe());
    AddCounted(cells_, hello.rank(), welcome);
  }
  OnFloorMoved(out);
  if (!state_.IsElastic() || !member->is_applied_known) return;
  for (const auto& [cell_name, cell] : cells_) cell.ResendMissedOutcomes(*member, out);
}

void RoundLane::OpenIfComplete(Sends* out) {
  const auto is_present = [](const LaneMember& member) { return member.present(); };
  if (state_.is_open || !state_.members.complete()) return;
  // A membership without members does not open the lane.
  if (std::none_of(state_.members.begin(), state_.members.end(), is_present)) return;
  state_.is_open = true;
  // While a member has not reported what it has applied, the floor does not move, because that
  // member may fetch an older state than the other members have.
  state_.floor = std::max(state_.floor, LeastApplied().value_or(0));
  // No member is further ahead of the others than this, whatever it said.
  if (LeastApplied().has_value()) {
    state_.newest_held_round =
        std::min(state_.newest_held_round, state_.floor + state_.MaxSlots() + kMaxRoundsAhead);
  }
  for (const LaneMember& member : state_.members) {
    if (member.present()) SendWelcome(state_, member.peer, out);
  }
}

void RoundLane::GoBack(uint64_t round) {
  const CheckInvariantsAtScopeEnd checked(*this);
  for (auto& [cell_name, cell] : cells_) cell.Clear();
  state_.members = LaneMembers(state_.options.workers);
  state_.is_open = false;
  state_.floor = round;
  state_.newest_held_round = round + 1;
  state_.last_round = state_.checkpoint_round = 0;
  state_.refused_for_now.assign(state_.options.workers, false);
  state_.agreement = {Ok(), std::min(state_.agreement.newest_round, round)};
  floor_moved_ = false;
}

void RoundLane::OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) {
  const CheckInvariantsAtScopeEnd checked(*this);
  LaneMember* member =
      state_.members.FindMember(rank, incarnation, state_.options.safeguards.fence_incarnations);
  if (member == nullptr) return;
  LaneMembers::SetApplied(member, applied);
  if (state_.is_open) AdvanceFloor();
}

std::optional<uint64_t> RoundLane::LeastApplied() const {
  std::optional<uint64_t> least_applied;
  for (const LaneMember& member : state_.members) {
    if (!member.present()) continue;
    if (!member.is_applied_known) return std::nullopt;
    least_applied = std::min(least_applied.value_or(member.applied), member.applied);
  }
  return least_applied;
}

// The search for a member at the floor begins at the one found last. So all searches of a round
// take time in proportion to the number of workers.
void RoundLane::AdvanceFloor() {
  const auto num_workers = static_cast<uint32_t>(state_.members.size());
  for (uint32_t i = 0; i < num_workers; ++i) {
    const uint32_t rank = (laggard_ + i) % num_workers;
    const LaneMember& member = state_.members[rank];
    if (!member.present() || (member.is_applied_known && member.applied > state_.floor)) continue;
    laggard_ = rank;
    return;
  }
  const uint64_t least_applied = LeastApplied().value_or(0);
  if (least_applied <= state_.floor) return;
  state_.floor = least_applied;
  floor_moved_ = true;
  for (auto& [cell_name, cell] : cells_) cell.DropUpTo(least_applied);
}

void RoundLane::OnFloorMoved(Sends* out) {
  if (!std::exchange(floor_moved_, false)) return;
  // A slot may have waited for an older one that was dropped because the floor passed it.
  for (auto& [cell_name, cell] : cells_) cell.CloseReadySlots(out);
  TellRefusedToResend(out);
}

void RoundLane::TellRefusedToResend(Sends* out) {
  for (uint32_t rank = 0; rank < state_.members.size(); ++rank) {
    if (!state_.refused_for_now[rank]) continue;
    state_.refused_for_now[rank] = false;
    const Peer peer = state_.members[rank].peer;
    if (peer != 0)
      out->push_back(RefusalTo(peer, Code::kOk, "there is room again", pb::Refuse::again));
  }
}

RoundCell* RoundLane::FindCell(const Cell& cell) {
  const auto found = cells_.find(cell);
  return found == cells_.end() ? nullptr : &found->second;
}

void RoundLane::OnMessage(Peer from, const Message& message, Sends* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  Kind kind;
  if (const pb::Contribution* c = AsContribution(message.head, &kind)) {
    OnContribution(from, kind, *c, message.payload, out);
  } else if (const pb::Outcome* held = AsHeldOutcome(message.head, &kind)) {
    OnHeldOutcome(from, kind, *held, message.payload, out);
  } else {
    ++state_.counters.bad;
    out->push_back(RefusalTo(from, Code::kMismatch, "a message of this type does not belong here",
                             pb::Refuse::ignore));
  }
  if (state_.is_open) OnFloorMoved(out);
}

void RoundLane::OnContribution(Peer from, Kind kind, const pb::Contribution& c,
                               const Bytes& payload, Sends* out) {
  const Cell cell_name{kind, c.bucket(), c.chunk()};
  LaneMember* member = state_.members.FindMember(c.rank(), c.incarnation(),
                                                 state_.options.safeguards.fence_incarnations);
  if (member == nullptr) {
    ++state_.counters.fenced;
    out->push_back(RefusalTo(from, Code::kNotAllowed,
                             ToString(cell_name, c) + " came from an incarnation of rank " +
                                 std::to_string(c.rank()) + " that is not a member",
                             pb::Refuse::ignore));
    return;
  }
  if (!state_.is_open) return;  // The sender has no Welcome yet and will repeat its message.
  if (state_.options.safeguards.checks_connections() && member->peer != from) {
    ++state_.counters.fenced;
    out->push_back(RefuseOtherConnection(from));
    return;
  }
  RoundCell* cell = FindCell(cell_name);
  if (const std::string fault = WhatIsWrong(cell, c, payload); !fault.empty()) {
    ++state_.counters.bad;
    out->push_back(
        RefusalTo(from, Code::kMismatch, ToString(cell_name, c) + fault, pb::Refuse::leave));
    return;
  }
  if (c.has_pull()) return cell->AnswerPull(from, c, out);
  if (c.has_late()) cell->CountLate(c);  // before AdvanceFloor drops the slot
  const bool are_members = SetAppliedOfContributors(c, member, &state_.members);
  AdvanceFloor();
  if (c.has_late()) return;
  if (are_members) return cell->Contribute(from, c, payload, out);
  ++state_.counters.split;
  const auto slot = cell->slots().find(ExchangeOf(c));
  AskToRepeat(state_.members, slot == cell->slots().end() ? nullptr : &slot->second, c, out);
}

std::string RoundLane::WhatIsWrong(const RoundCell* cell, const pb::Contribution& c,
                                   const Bytes& payload) const {
  if (std::string fault = DescribeFormFault(c, payload); !fault.empty()) return fault;
  const std::string not_planned = " is not in this lane's plan";
  if (cell == nullptr) return not_planned;
  if (c.has_pull()) return cell->spec().pull ? "" : not_planned;
  const std::optional<uint64_t> applied = AppliedBy(c);
  if (!applied.has_value()) return " is of no round, and this lane has rounds";
  const uint64_t round = ExchangeOf(c);
  const bool in_window = *applied < round && round - *applied <= state_.options.window;
  if (in_window && IsPartialSum(c) && !cell->spec().adds_partial_sums)
    return " is a sum of a host, and the job has exchange.host_sum: false";
  if (in_window && IsPartialSum(c) && !AreRanksInOrder(c, state_.members.size()))
    return " is a sum of a host, and its ranks are not in order, or not of this job";
  if (in_window || c.has_late()) return "";
  return " (applied " + std::to_string(*applied) + ")" + not_planned;
}

void RoundLane::OnHeldOutcome(Peer from, Kind kind, const pb::Outcome& held, const Bytes& payload,
                              Sends* out) {
  RoundCell* cell = FindCell({kind, held.bucket(), held.chunk()});
  if (!state_.members.IsPeerOfMember(from) || !state_.is_open || cell == nullptr) return;
  if (held.has_of_round()) return cell->RestoreFromOutcome(from, held, payload, out);
  ++state_.counters.bad;
  out->push_back(RefusalTo(from, Code::kMismatch,
                           "a held outcome is of no round, and this lane has rounds",
                           pb::Refuse::leave));
}

size_t RoundLane::LargestNumSlots() const {
  size_t max_slots = 0;
  for (const auto& [cell_name, cell] : cells_) max_slots = std::max(max_slots, cell.slots().size());
  return max_slots;
}

Status RoundLane::Check() const {
  const uint64_t least_applied = LeastApplied().value_or(0);
  TERN_HOLDS(!state_.is_open || state_.floor >= least_applied, "lane: its floor is ", state_.floor,
             ", and every member has applied ", least_applied);
  for (uint32_t rank = 0; rank < state_.refused_for_now.size(); ++rank) {
    TERN_HOLDS(!state_.refused_for_now[rank] || state_.IsElastic(), "lane: turned rank ", rank,
               " away, and has neither a quorum nor shrinks");
  }
  for (const auto& [cell_name, cell] : cells_) {
    TERN_HOLDS(state_.is_open || cell.slots().size() == 0, ToString(cell_name, state_.floor),
               ": keeps ", cell.slots().size(), " rounds, and the lane is not open");
    TERN_RETURN_IF_ERROR(cell.Check(/*floor_moved=*/floor_moved_));
  }
  return Ok();
}

}  // namespace tern::protocol
