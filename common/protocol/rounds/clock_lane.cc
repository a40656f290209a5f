#include "common/protocol/rounds/clock_lane.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tern::protocol {

namespace {

constexpr int kMismatch = static_cast<int>(Code::kMismatch);
constexpr int kNotAllowed = static_cast<int>(Code::kNotAllowed);
constexpr int kPeerLost = static_cast<int>(Code::kPeerLost);

Send Refuse(Peer to, int code, std::string sentence, pb::Refuse::Then then) {
  return {to, MakeRefuse(code, std::move(sentence), then)};
}

std::optional<uint64_t> HeldBy(const pb::Contribution& c) {
  return c.has_version() ? std::optional<uint64_t>(c.version()) : std::nullopt;
}

}  // namespace

ClockLane::ClockLane(Options options, std::vector<ClockCellSpec> cells)
    : options_(std::move(options)),
      members_(options_.workers),
      incarnations_(options_.workers),
      newest_(options_.workers),
      dropped_(options_.workers) {
  counters_.staleness.assign(kStalenessBins, 0);
  TakeCells(std::move(cells));
}

void ClockLane::GoBack(std::vector<ClockCellSpec> cells) {
  members_ = LaneMembers(options_.workers);
  incarnations_.assign(options_.workers, 0);
  newest_.assign(options_.workers, 0);
  open_ = false;
  TakeCells(std::move(cells));
}

void ClockLane::TakeCells(std::vector<ClockCellSpec> cells) {
  cells_.clear();
  for (ClockCellSpec& spec : cells) {
    CellState& state = cells_[spec.cell];
    state.spec = std::move(spec);
    state.clocks.counted.assign(options_.workers, 0);
    state.clocks.answered.assign(options_.workers, 0);
    state.ranks.resize(options_.workers);
  }
}

void ClockLane::OnMembers(const pb::Members& members, Sends* out) {
  const uint64_t epoch = members_.epoch();
  members_.OnMembers(members);
  if (members.steps() != 0 && options_.pushes) target_ = options_.pushes(members.steps());
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    const uint64_t now = members_[rank].incarnation;
    const uint64_t before = std::exchange(incarnations_[rank], now);
    if (now != before) OnChangedMember(rank, epoch != 0 && before == 0);
  }
  OpenIfComplete(out);
  ReleaseAll(out);
}

void ClockLane::OnChangedMember(uint32_t rank, bool was_removed) {
  for (auto& [cell, state] : cells_) {
    Rank& r = state.ranks[rank];
    r.waiting.reset();
    if (members_[rank].incarnation == 0) continue;
    r.finished = true;  // not one of those whose least clock is asked for
    const uint64_t least = LeastClock(state);
    r.finished = false;
    // The others went on without it; they need not wait until it has made up for that.
    if (was_removed && options_.bound.has_value() &&
        least != std::numeric_limits<uint64_t>::max()) {
      r.at_least = std::max(r.at_least, least);
    }
  }
}

void ClockLane::OnHello(Peer from, const pb::Hello& hello, Sends* out) {
  if (members_.OnHello(from, hello, out) == nullptr) return;
  if (!open_) return OpenIfComplete(out);
  out->push_back({from, MakeLaneWelcome(options_.incarnation, members_.epoch(), {})});
  ReleaseAll(out);
}

void ClockLane::OpenIfComplete(Sends* out) {
  if (open_ || !members_.complete()) return;
  open_ = true;
  for (const LaneMember& member : members_) {
    if (member.peer == 0) continue;
    out->push_back({member.peer, MakeLaneWelcome(options_.incarnation, members_.epoch(), {})});
  }
}

void ClockLane::OnApplied(uint32_t rank, uint64_t incarnation, uint64_t applied) {
  LaneMember* member = members_.Find(rank, incarnation, options_.safeguards.fence_incarnations);
  if (member != nullptr) LaneMembers::ShowApplied(member, applied);
}

void ClockLane::OnMessage(Peer from, const Message& message, Sends* out) {
  if (stop_requested_) ReleaseAll(out);
  Kind kind;
  if (const pb::Contribution* c = AsContribution(message.head, &kind)) {
    OnContribution(from, kind, *c, message.payload, out);
  } else if (const pb::Outcome* held = AsHeldOutcome(message.head, &kind)) {
    OnHeld(from, kind, *held, out);
  } else {
    ++counters_.bad;
    out->push_back(
        Refuse(from, kMismatch, "a message of this type does not belong here", pb::Refuse::ignore));
  }
}

void ClockLane::OnHeld(Peer from, Kind kind, const pb::Outcome& held, Sends* out) {
  if (!open_ || !members_.IsPeer(from)) return;
  CellState* cell = Find({kind, held.bucket(), held.chunk()});
  for (uint32_t rank = 0; cell != nullptr && rank < members_.size(); ++rank) {
    const uint64_t counted = cell->clocks.counted[rank];
    if (members_[rank].peer != from) continue;
    cell->ranks[rank].finished |= held.parted();
    const uint64_t clock = held.round() - (held.parted() && held.round() != 0 ? 1 : 0);
    if (clock <= counted || clock > kMaxClock) continue;
    cell->ranks[rank].at_least = std::max(cell->ranks[rank].at_least, clock);
    lost_clocks_ = std::max(lost_clocks_, clock - counted);
  }
  Send send{from, {}};
  *MutableHeldOutcome(kind, &send.message.head) = held;
  out->push_back(std::move(send));
  ReleaseAll(out);
}

void ClockLane::OnContribution(Peer from, Kind kind, const pb::Contribution& c,
                               const Bytes& payload, Sends* out) {
  const Cell name{kind, c.bucket(), c.chunk()};
  const bool fence = options_.safeguards.fence_incarnations;
  LaneMember* member = members_.Find(c.rank(), c.incarnation(), fence);
  if (member == nullptr || (fence && member->incarnation == 0)) {
    ++counters_.fenced;
    out->push_back(Refuse(from, kNotAllowed,
                          ToString(name, c.round()) + " came from an incarnation of rank " +
                              std::to_string(c.rank()) + " that is not a member",
                          pb::Refuse::ignore));
    return;
  }
  if (!open_) return;  // it will come again: its sender has not been welcomed
  CellState* cell = Find(name);
  const std::string wrong = cell == nullptr ? " is not in this lane's plan" : Check(c, payload);
  if (!wrong.empty()) {
    ++counters_.bad;
    out->push_back(Refuse(from, kMismatch, ToString(name, c.round()) + wrong, pb::Refuse::leave));
    return;
  }
  LaneMembers::ShowApplied(member, c.applied());
  if (c.pull_only()) {
    OnPull(from, cell, c, out);
  } else if (c.skip()) {
    OnSkip(from, cell, c, out);
  } else {
    OnPush(from, cell, c, payload, out);
  }
  ReleaseAll(out);
}

std::string ClockLane::Check(const pb::Contribution& c, const Bytes& payload) {
  if (c.round() > kMaxClock) return " is of no clock: at most 2^62 is one";
  if (c.pull_only() || c.skip())
    return payload.empty() ? "" : " pushes nothing, as it says, but has a payload";
  return c.round() == 0 ? " is of no clock: they count from 1" : "";
}

void ClockLane::OnPush(Peer from, CellState* cell, const pb::Contribution& c, const Bytes& payload,
                       Sends* out) {
  const uint32_t rank = c.rank();
  const uint64_t newest = cell->clocks.counted[rank];
  if (c.round() < newest) {
    ++counters_.stale;
    std::string sentence = ToString(cell->spec.cell, c.round()) + " is stale: rank " +
                           std::to_string(rank) + " is at " + std::to_string(newest);
    // After a restart of shard 0 the first to come has the rank, whoever had it last.
    const bool other = cell->ranks[rank].counted_by != c.incarnation();
    if (other) sentence += "; another process had it meanwhile: start this worker again";
    out->push_back(Refuse(from, other ? kPeerLost : kNotAllowed, std::move(sentence),
                          other ? pb::Refuse::leave : pb::Refuse::ignore));
    return;
  }
  if (c.round() == newest && options_.safeguards.count_once) {
    ++counters_.repeated;
    if (std::optional<Waiting>& waiting = cell->ranks[rank].waiting; waiting.has_value()) {
      waiting->peer = from;
      return;  // its answer is still to come
    }
  } else if (!CountIn(from, cell, c, payload, out)) {
    return;
  }
  if (c.push_only()) {
    Send send = MakeAnswer(from, *cell, c.round());
    pb::Outcome* outcome = MutableOutcome(cell->spec.cell.kind, &send.message.head);
    outcome->set_staleness(cell->ranks[rank].staleness);
    if (cell->ranks[rank].dropped) outcome->set_dropped(true);
    out->push_back(std::move(send));
  } else if (MustWait(*cell, rank)) {
    cell->ranks[rank].waiting = Waiting{from, HeldBy(c)};
  } else {
    AnswerPush(from, cell, rank, HeldBy(c), out);
  }
}

bool ClockLane::CountIn(Peer from, CellState* cell, const pb::Contribution& c, const Bytes& payload,
                        Sends* out) {
  const uint32_t rank = c.rank();
  Rank& r = cell->ranks[rank];
  const uint64_t version = cell->spec.weights->version();
  // Versions beyond ours were those of a server that is gone.
  const uint64_t base =
      std::min(version, c.has_version() ? c.version() : cell->clocks.answered[rank]);
  const uint64_t staleness = version - base;
  const bool drop = options_.max_staleness != 0 && staleness > options_.max_staleness;
  if (drop) {
    ++counters_.dropped;
    ++dropped_[rank];
  } else if (Status pushed = cell->spec.weights->Push(rank, base, payload); !pushed.ok()) {
    ++counters_.bad;
    out->push_back(Refuse(from, ExitCode(pushed),
                          ToString(cell->spec.cell, c.round()) + " of rank " +
                              std::to_string(rank) + ": " + pushed.message(),
                          pb::Refuse::leave));
    return false;
  } else {
    ++counters_.counted;
    ++cell->clocks.total;
  }
  ++counters_.staleness[std::min<uint64_t>(staleness, kStalenessBins - 1)];
  cell->clocks.counted[rank] = c.round();
  r.counted_by = c.incarnation();
  newest_[rank] = std::max(newest_[rank], c.round());
  r.finished = false;
  r.waiting.reset();
  r.staleness = staleness;
  r.dropped = drop;
  return true;
}

void ClockLane::OnPull(Peer from, CellState* cell, const pb::Contribution& c, Sends* out) {
  Send send = MakeAnswer(from, *cell, ClockOf(*cell, c.rank()));
  pb::Outcome* outcome = MutableOutcome(cell->spec.cell.kind, &send.message.head);
  outcome->set_pulled(true);
  outcome->set_pull(c.round());
  if (c.average()) {
    outcome->set_average(true);
    outcome->set_version(cell->spec.weights->version());
    send.message.payload = cell->spec.weights->Average();
  } else {
    AddWeights(cell, c.rank(), HeldBy(c), &send);
  }
  out->push_back(std::move(send));
}

void ClockLane::OnSkip(Peer from, CellState* cell, const pb::Contribution& c, Sends* out) {
  Rank& r = cell->ranks[c.rank()];
  if (!r.finished) ++counters_.skipped;
  r.finished = true;
  out->push_back(MakeAnswer(from, *cell, c.round()));
  MutableOutcome(cell->spec.cell.kind, &out->back().message.head)->set_parted(true);
}

Send ClockLane::MakeAnswer(Peer to, const CellState& cell, uint64_t round) const {
  Send send{to, {}};
  pb::Outcome* outcome = MutableOutcome(cell.spec.cell.kind, &send.message.head);
  outcome->set_round(round);
  outcome->set_bucket(cell.spec.cell.bucket);
  outcome->set_chunk(cell.spec.cell.chunk);
  outcome->set_total(cell.clocks.total);
  if (options_.learning_rate) outcome->set_learning_rate(options_.learning_rate(cell.clocks.total));
  if (Stopped(cell)) outcome->set_stop_after(round);
  return send;
}

void ClockLane::AddWeights(CellState* cell, uint32_t rank, std::optional<uint64_t> holds,
                           Send* send) {
  pb::Outcome* outcome = MutableOutcome(cell->spec.cell.kind, &send->message.head);
  ClockCell::Answer answer = cell->spec.weights->Pull(rank, holds);
  outcome->set_version(cell->spec.weights->version());
  if (answer.whole) outcome->set_whole(true);
  cell->clocks.answered[rank] = cell->spec.weights->version();
  send->message.payload = std::move(answer.payload);
}

void ClockLane::AnswerPush(Peer to, CellState* cell, uint32_t rank, std::optional<uint64_t> holds,
                           Sends* out) {
  const Rank& r = cell->ranks[rank];
  Send send = MakeAnswer(to, *cell, cell->clocks.counted[rank]);
  pb::Outcome* outcome = MutableOutcome(cell->spec.cell.kind, &send.message.head);
  outcome->set_contributors(1);
  outcome->set_staleness(r.staleness);
  if (r.dropped) outcome->set_dropped(true);
  AddWeights(cell, rank, holds, &send);
  out->push_back(std::move(send));
}

void ClockLane::ReleaseAll(Sends* out) {
  if (!options_.bound.has_value()) return;  // nobody ever waits
  for (auto& [name, cell] : cells_) Release(&cell, out);
}

void ClockLane::Release(CellState* cell, Sends* out) {
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    std::optional<Waiting>& waiting = cell->ranks[rank].waiting;
    if (!waiting.has_value() || MustWait(*cell, rank)) continue;
    const Waiting answered = *std::exchange(waiting, std::nullopt);
    AnswerPush(answered.peer, cell, rank, answered.holds, out);
  }
}

void ClockLane::Stop(Sends* out) {
  OnStop();
  ReleaseAll(out);
}

bool ClockLane::Stopped(const CellState& cell) const {
  return stop_requested_ || (target_ != 0 && cell.clocks.total >= target_);
}

bool ClockLane::MustWait(const CellState& cell, uint32_t rank) const {
  if (!options_.bound.has_value() || !options_.safeguards.keep_bound || Stopped(cell)) return false;
  const uint64_t clock = cell.clocks.counted[rank];
  return clock > *options_.bound && LeastClock(cell) < clock - *options_.bound;
}

uint64_t ClockLane::ClockOf(const CellState& cell, uint32_t rank) const {
  const uint64_t before = newest_[rank] == 0 ? 0 : newest_[rank] - 1;
  return std::max({cell.clocks.counted[rank], cell.ranks[rank].at_least, before});
}

uint64_t ClockLane::LeastClock(const CellState& cell) const {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].incarnation == 0 || cell.ranks[rank].finished) continue;
    least = std::min(least, ClockOf(cell, rank));
  }
  return least;
}

size_t ClockLane::waiting() const {
  size_t waiting = 0;
  for (const auto& [name, cell] : cells_) {
    for (const Rank& rank : cell.ranks) waiting += rank.waiting.has_value();
  }
  return waiting;
}

const CellClocks& ClockLane::clocks(const Cell& cell) const { return cells_.at(cell).clocks; }

void ClockLane::Restore(const Cell& cell, CellClocks clocks) {
  clocks.counted.resize(members_.size());
  clocks.answered.resize(members_.size());
  for (size_t rank = 0; rank < newest_.size(); ++rank)
    newest_[rank] = std::max(newest_[rank], clocks.counted[rank]);
  cells_.at(cell).clocks = std::move(clocks);
}

uint64_t ClockLane::total() const {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const auto& [name, cell] : cells_) least = std::min(least, cell.clocks.total);
  return cells_.empty() ? 0 : least;
}

bool ClockLane::done() const {
  if (!open_ || stop_requested_ || target_ == 0) return false;
  for (const auto& [name, cell] : cells_) {
    for (uint32_t rank = 0; rank < members_.size(); ++rank)
      if (members_[rank].incarnation != 0 && !cell.ranks[rank].finished) return false;
  }
  return true;
}

ClockLane::CellState* ClockLane::Find(const Cell& cell) {
  const auto found = cells_.find(cell);
  return found == cells_.end() ? nullptr : &found->second;
}

}  // namespace tern::protocol
