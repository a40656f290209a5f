#include "common/protocol/rounds/clock_lane.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/invariants.h"
#include "common/protocol/rounds/forms.h"

namespace tern::protocol {

namespace {

// Returns what is wrong with a contribution, as the end of a sentence that begins with the
// contribution's name. Returns an empty string if the contribution is valid.
std::string WhatIsWrong(const pb::Contribution& c, const Bytes& payload) {
  if (std::string fault = DescribeFormFault(c, payload); !fault.empty()) return fault;
  if (c.has_pull()) return "";
  if (!c.has_at_clock() && !c.has_parting()) return " is of a round, and this lane has none";
  const uint64_t clock = ExchangeOf(c);
  if (clock > kMaxClock) return " is of no clock: at most 2^62 is one";
  return clock == 0 ? " is of no clock: they count from 1" : "";
}

// Lists in the answer the pushes of the sender whose answers are delayed.
void AnswerProbe(const pb::Hello& hello, const std::map<Cell, CountedCell>& cells,
                 pb::Welcome* welcome) {
  welcome->set_probe(hello.probe());
  for (const auto& [name, cell] : cells) {
    if (cell.waiting(hello.rank()))
      AddCounted(name, cell.clocks().counted_clocks[hello.rank()], welcome);
  }
}

}  // namespace

ClockLane::ClockLane(Options options, std::vector<ClockCellSpec> cells)
    : state_(std::move(options)) {
  SetCells(std::move(cells));
}

void ClockLane::GoBack(std::vector<ClockCellSpec> cells) {
  const CheckInvariantsAtScopeEnd checked(*this);
  state_.members = LaneMembers(state_.options.workers);
  state_.newest_clocks.assign(state_.options.workers, 0);
  state_.is_open = false;
  SetCells(std::move(cells));
}

void ClockLane::SetCells(std::vector<ClockCellSpec> cells) {
  cells_.clear();
  for (ClockCellSpec& spec : cells) {
    const Cell cell = spec.cell;
    cells_.try_emplace(cell, std::move(spec), &state_);
  }
}

void ClockLane::OnMembers(const pb::Members& members, Sends* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  const LaneMembers old_members = state_.members;
  state_.members.OnMembers(members);
  if (members.steps() != 0 && state_.options.num_pushes)
    state_.target_pushes = state_.options.num_pushes(members.steps());
  for (uint32_t rank = 0; rank < old_members.size(); ++rank) {
    if (state_.members[rank].incarnation == old_members[rank].incarnation) continue;
    const bool was_removed = old_members.epoch() != 0 && !old_members[rank].present();
    for (auto& [name, cell] : cells_) cell.OnChangedMember(rank, was_removed);
  }
  OpenIfComplete(out);
  SendUnblockedAnswers(out);
}

void ClockLane::OnHello(Peer from, const pb::Hello& hello, Sends* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (state_.members.OnHello(from, hello, out) == nullptr) return;
  if (!state_.is_open) return OpenIfComplete(out);
  out->push_back({from, MakeLaneWelcome(state_.options.incarnation, state_.members.epoch(), {})});
  if (hello.has_probe()) AnswerProbe(hello, cells_, out->back().message.head.mutable_welcome());
  SendUnblockedAnswers(out);
}

void ClockLane::OpenIfComplete(Sends* out) {
  if (state_.is_open || !state_.members.complete()) return;
  state_.is_open = true;
  for (const LaneMember& member : state_.members) {
    if (member.peer == 0) continue;
    out->push_back(
        {member.peer, MakeLaneWelcome(state_.options.incarnation, state_.members.epoch(), {})});
  }
}

void ClockLane::OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) {
  const CheckInvariantsAtScopeEnd checked(*this);
  LaneMember* member =
      state_.members.FindMember(rank, incarnation, state_.options.safeguards.fence_incarnations);
  if (member != nullptr) LaneMembers::SetApplied(member, applied);
}

void ClockLane::OnMessage(Peer from, const Message& message, Sends* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (state_.stop_requested) SendUnblockedAnswers(out);
  Kind kind;
  if (const pb::Contribution* c = AsContribution(message.head, &kind)) {
    OnContribution(from, kind, *c, message.payload, out);
  } else if (const pb::Outcome* held_outcome = AsHeldOutcome(message.head, &kind)) {
    OnHeldOutcome(from, kind, *held_outcome, out);
  } else {
    ++state_.counters.bad;
    out->push_back(RefusalTo(from, Code::kMismatch, "a message of this type does not belong here",
                             pb::Refuse::ignore));
  }
}

void ClockLane::OnHeldOutcome(Peer from, Kind kind, const pb::Outcome& held_outcome, Sends* out) {
  if (!state_.is_open || !state_.members.IsPeerOfMember(from)) return;
  if (!held_outcome.has_at_clock() && !held_outcome.has_parted()) {
    ++state_.counters.bad;
    out->push_back(RefusalTo(from, Code::kMismatch,
                             "a held outcome is of no clock, and this lane has clocks",
                             pb::Refuse::leave));
    return;
  }
  CountedCell* cell = Find({kind, held_outcome.bucket(), held_outcome.chunk()});
  if (cell != nullptr) cell->RestoreFromOutcome(from, held_outcome);
  Send send{from, {}};
  *MutableHeldOutcome(kind, &send.message.head) = held_outcome;
  out->push_back(std::move(send));
  SendUnblockedAnswers(out);
}

void ClockLane::OnContribution(Peer from, Kind kind, const pb::Contribution& c,
                               const Bytes& payload, Sends* out) {
  const Cell cell_name{kind, c.bucket(), c.chunk()};
  const bool must_check_incarnation = state_.options.safeguards.fence_incarnations;
  LaneMember* member = state_.members.FindMember(c.rank(), c.incarnation(), must_check_incarnation);
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
  CountedCell* cell = Find(cell_name);
  const std::string fault =
      cell == nullptr ? " is not in this lane's plan" : WhatIsWrong(c, payload);
  if (!fault.empty()) {
    ++state_.counters.bad;
    out->push_back(
        RefusalTo(from, Code::kMismatch, ToString(cell_name, c) + fault, pb::Refuse::leave));
    return;
  }
  if (c.has_pull()) {
    cell->OnPull(from, c, out);
  } else if (c.has_parting()) {
    cell->OnParting(from, c, out);
  } else {
    cell->OnPush(from, c, payload, out);
  }
  SendUnblockedAnswers(out);
}

void ClockLane::SendUnblockedAnswers(Sends* out) {
  // Only ssp, which limits how far a worker may be ahead of the others, delays answers.
  if (!state_.options.max_clocks_ahead.has_value()) return;
  for (auto& [name, cell] : cells_) cell.SendUnblockedAnswers(out);
}

void ClockLane::Stop(Sends* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  OnStop();
  SendUnblockedAnswers(out);
}

size_t ClockLane::num_waiting() const {
  size_t num_delayed = 0;
  for (const auto& [name, cell] : cells_) num_delayed += cell.num_waiting();
  return num_delayed;
}

const CellClocks& ClockLane::clocks(const Cell& cell) const { return cells_.at(cell).clocks(); }

void ClockLane::Restore(const Cell& cell, CellClocks clocks) {
  const CheckInvariantsAtScopeEnd checked(*this);
  CountedCell& counted_cell = cells_.at(cell);
  TERN_REQUIRES(counted_cell.clocks().total == 0, ToString(cell, 0, "clock"), ": restored after ",
                counted_cell.clocks().total, " pushes");
  counted_cell.RestoreClocks(std::move(clocks));
}

uint64_t ClockLane::total() const {
  uint64_t least_total = std::numeric_limits<uint64_t>::max();
  for (const auto& [name, cell] : cells_) least_total = std::min(least_total, cell.clocks().total);
  return cells_.empty() ? 0 : least_total;
}

uint64_t ClockLane::position() const {
  uint64_t least_position = kMaxClock;
  for (const auto& [name, cell] : cells_) {
    uint64_t sum_of_clocks = 0;
    for (const uint64_t clock : cell.clocks().counted_clocks)
      sum_of_clocks = std::min(sum_of_clocks + clock, kMaxClock);
    const uint64_t total = cell.clocks().total;
    const uint64_t beyond_target = target() == 0 || total < target() ? 0 : total - target();
    least_position = std::min(least_position, sum_of_clocks - beyond_target);
  }
  return cells_.empty() ? 0 : least_position;
}

CountedCell* ClockLane::Find(const Cell& cell) {
  const auto found_cell = cells_.find(cell);
  return found_cell == cells_.end() ? nullptr : &found_cell->second;
}

Status ClockLane::Check() const {
  std::vector<uint64_t> newest_counted(state_.newest_clocks.size());
  for (const auto& [name, cell] : cells_) {
    for (size_t rank = 0; rank < newest_counted.size(); ++rank)
      newest_counted[rank] = std::max(newest_counted[rank], cell.clocks().counted_clocks[rank]);
    TERN_HOLDS(state_.is_open || cell.num_waiting() == 0, ToString(name, 0, "clock"), ": ",
               cell.num_waiting(), " ranks wait, and the lane is not open");
    TERN_RETURN_IF_ERROR(cell.Check());
  }
  for (size_t rank = 0; rank < newest_counted.size(); ++rank) {
    TERN_HOLDS(newest_counted[rank] == state_.newest_clocks[rank], "lane: rank ", rank,
               " is at clock ", state_.newest_clocks[rank], ", and its cells have counted ",
               newest_counted[rank]);
  }
  const Counters& counters = state_.counters;
  const auto sum_of = [](const std::vector<uint64_t>& numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), uint64_t{0});
  };
  TERN_HOLDS(sum_of(counters.staleness) == counters.counted + counters.dropped,
             "lane: ", sum_of(counters.staleness), " pushes have a staleness, and ",
             counters.counted + counters.dropped, " came");
  TERN_HOLDS(sum_of(state_.num_dropped) == counters.dropped, "lane: dropped ",
             sum_of(state_.num_dropped), " pushes by rank, and ", counters.dropped, " in all");
  return Ok();
}

}  // namespace tern::protocol
