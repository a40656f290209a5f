// Counts the pushes to one cell of a ClockLane, and answers them. A cell has the weights of one
// chunk of the model; its version counts how often they have changed. A clock is a worker's own
// count of its exchanges.
#include "common/protocol/rounds/counted_cell.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "common/base/invariants.h"
#include "common/protocol/rounds/forms.h"

namespace tern::protocol {

namespace {

using RankState = CountedCell::RankState;

constexpr uint64_t kNoClock = std::numeric_limits<uint64_t>::max();
constexpr const char* kRankStates[] = {"training", "waiting", "parted"};

const char* NameOf(RankState state) { return kRankStates[static_cast<size_t>(state)]; }

bool MayBecome(RankState from, RankState to) {
  switch (from) {
    case RankState::kTraining:
      return true;
    case RankState::kWaiting:
      return to != RankState::kWaiting;
    case RankState::kParted:
      return to != RankState::kWaiting;
  }
  return false;
}

// The version of the weights that the sender of a push or pull holds; nullopt: none.
template <typename Form>
std::optional<uint64_t> VersionHeldBy(const Form& form) {
  return form.has_holds() ? std::optional<uint64_t>(form.holds()) : std::nullopt;
}

}  // namespace

ClockLaneState::ClockLaneState(ClockLaneOptions given_options)
    : options(std::move(given_options)),
      members(options.workers),
      newest_clocks(options.workers),
      num_dropped(options.workers) {
  counters.staleness.assign(kStalenessBins, 0);
}

CountedCell::CountedCell(ClockCellSpec spec, ClockLaneState* lane)
    : spec_(std::move(spec)), lane_(lane), ranks_(lane->options.workers) {
  clocks_.counted_clocks.assign(ranks_.size(), 0);
  clocks_.answered_versions.assign(ranks_.size(), 0);
}

bool CountedCell::Become(uint32_t rank, RankState next) {
  RankState& state = ranks_[rank].state;
  const bool is_allowed = MayBecome(state, next);
  TERN_REQUIRES(is_allowed, "rank ", rank, " that is ", NameOf(state), " cannot become ",
                NameOf(next));
  if (is_allowed) state = next;
  return is_allowed;
}

void CountedCell::OnChangedMember(uint32_t rank, bool was_removed) {
  RankEntry& entry = ranks_[rank];
  if (lane_->members[rank].incarnation == 0) {
    if (entry.state == RankState::kWaiting) Become(rank, RankState::kTraining);
    return;
  }
  const uint64_t least_other_clock = LeastClock(rank);
  Become(rank, RankState::kTraining);
  // While the rank had no process, the other workers continued. They must not wait until the new
  // process has made as many pushes as they have, so its clock counts as at least the least of
  // their clocks.
  if (was_removed && lane_->options.max_clocks_ahead.has_value() && least_other_clock != kNoClock)
    entry.least_clock = std::max(entry.least_clock, least_other_clock);
}

void CountedCell::RestoreFromOutcome(Peer from, const pb::Outcome& held_outcome) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (lane_->members[rank].peer != from) continue;
    if (held_outcome.has_parted()) Become(rank, RankState::kParted);
    const uint64_t counted_clock = clocks_.counted_clocks[rank];
    const uint64_t answered_clock = ExchangeOf(held_outcome);
    const uint64_t clock =
        answered_clock - (held_outcome.has_parted() && answered_clock != 0 ? 1 : 0);
    if (clock <= counted_clock || clock > kMaxClock) continue;
    ranks_[rank].least_clock = std::max(ranks_[rank].least_clock, clock);
    ranks_[rank].answered_before = std::max(ranks_[rank].answered_before, clock);
    lane_->lost_clocks = std::max(lane_->lost_clocks, clock - counted_clock);
  }
  clocks_.answered_before = 0;
  for (const RankEntry& entry : ranks_)
    clocks_.answered_before = std::min(clocks_.answered_before + entry.answered_before, kMaxClock);
}

void CountedCell::OnPush(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out) {
  const uint32_t rank = c.rank();
  RankEntry& entry = ranks_[rank];
  TERN_REQUIRES(c.has_at_clock(), "rank ", rank, " pushes, and says that it does not");
  const pb::Contribution::AtClock& at_clock = c.at_clock();
  if (at_clock.clock() < clocks_.counted_clocks[rank]) return RefuseAsStale(from, c, out);
  if (at_clock.clock() == clocks_.counted_clocks[rank] && lane_->options.safeguards.count_once) {
    ++lane_->counters.repeated;
    if (entry.state == RankState::kWaiting) {
      entry.peer = from;
      return;  // The answer to the push is still delayed.
    }
  } else if (!CountAndApply(from, c, payload, out)) {
    return;
  }
  if (!at_clock.wants_weights()) {
    out->push_back(MakeAnswerToPush(from, rank));
  } else if (entry.state == RankState::kTraining && MustWait(rank)) {
    Become(rank, RankState::kWaiting);
    entry.peer = from;
    entry.held_version = VersionHeldBy(at_clock);
  } else {
    AnswerPush(from, rank, VersionHeldBy(at_clock), out);
  }
}

void CountedCell::RefuseAsStale(Peer from, const pb::Contribution& c, Sends* out) const {
  ++lane_->counters.stale;
  std::string sentence = ToString(spec_.cell, c) + " is stale: rank " + std::to_string(c.rank()) +
                         " is at " + std::to_string(clocks_.counted_clocks[c.rank()]);
  // Another process may have pushed as this rank: after a restart of shard 0 the first process that
  // says hello gets the rank, even if another process had the rank before.
  const bool was_replaced = ranks_[c.rank()].counted_incarnation != c.incarnation();
  if (was_replaced) sentence += "; another process had it meanwhile: start this worker again";
  const Code code = was_replaced ? Code::kPeerLost : Code::kNotAllowed;
  out->push_back(RefusalTo(from, code, std::move(sentence),
                           was_replaced ? pb::Refuse::leave : pb::Refuse::ignore));
}

bool CountedCell::CountAndApply(Peer from, const pb::Contribution& c, const Bytes& payload,
                                Sends* out) {
  const uint32_t rank = c.rank();
  const uint64_t version = spec_.weights->version();
  // A sender may hold a version greater than this cell's, from a previous server process.
  const uint64_t base_version =
      std::min(version, VersionHeldBy(c.at_clock()).value_or(clocks_.answered_versions[rank]));
  const uint64_t staleness = version - base_version;
  const uint64_t max_staleness = lane_->options.max_staleness;
  const bool is_too_stale = max_staleness != 0 && staleness > max_staleness;
  if (is_too_stale) {
    ++lane_->counters.dropped;
    ++lane_->num_dropped[rank];
  } else if (Status push_status = spec_.weights->Push(rank, base_version, payload);
             !push_status.ok()) {
    ++lane_->counters.bad;
    out->push_back(RefusalTo(
        from, push_status.code(),
        ToString(spec_.cell, c) + " of rank " + std::to_string(rank) + ": " + push_status.message(),
        pb::Refuse::leave));
    return false;
  } else {
    ++lane_->counters.counted;
    ++clocks_.total;
  }
  ++lane_->counters.staleness[std::min<uint64_t>(staleness, kStalenessBins - 1)];
  clocks_.counted_clocks[rank] = c.at_clock().clock();
  lane_->newest_clocks[rank] = std::max(lane_->newest_clocks[rank], c.at_clock().clock());
  Become(rank, RankState::kTraining);
  RankEntry& entry = ranks_[rank];
  entry.counted_incarnation = c.incarnation();
  entry.staleness = staleness;
  entry.is_dropped = is_too_stale;
  return true;
}

void CountedCell::OnPull(Peer from, const pb::Contribution& c, Sends* out) {
  TERN_REQUIRES(c.has_pull(), "rank ", c.rank(), " pulls, and says that it does not");
  Send send = MakeAnswer(from);
  pb::Outcome* outcome = MutableOutcome(spec_.cell.kind, &send.message.head);
  pb::Outcome::Pulled* pulled = outcome->mutable_pulled();
  pulled->set_number(c.pull().number());
  SetCounts(ClockOf(c.rank()), pulled);
  if (c.pull().has_average()) {
    pulled->mutable_average();
    send.message.payload = spec_.weights->Average();
  } else {
    AddWeights(c.rank(), VersionHeldBy(c.pull().weights()), pulled->mutable_weights(),
               &send.message.payload);
  }
  out->push_back(std::move(send));
}

void CountedCell::OnParting(Peer from, const pb::Contribution& c, Sends* out) {
  TERN_REQUIRES(c.has_parting(), "rank ", c.rank(), " parts, and says that it does not");
  if (!parted(c.rank())) ++lane_->counters.skipped;
  Become(c.rank(), RankState::kParted);
  Send send = MakeAnswer(from);
  pb::Outcome* outcome = MutableOutcome(spec_.cell.kind, &send.message.head);
  SetCounts(c.parting().clock(), outcome->mutable_parted());
  out->push_back(std::move(send));
}

Send CountedCell::MakeAnswer(Peer to) const {
  Send send{to, {}};
  pb::Outcome* outcome = MutableOutcome(spec_.cell.kind, &send.message.head);
  outcome->set_bucket(spec_.cell.bucket);
  outcome->set_chunk(spec_.cell.chunk);
  if (lane_->options.learning_rate)
    outcome->set_learning_rate(lane_->options.learning_rate(clocks_.total));
  return send;
}

template <typename Form>
void CountedCell::SetCounts(uint64_t clock, Form* form) const {
  form->set_clock(clock);
  form->set_total(clocks_.total);
  if (MustStop()) form->set_stop(true);
}

Send CountedCell::MakeAnswerToPush(Peer to, uint32_t rank) const {
  Send send = MakeAnswer(to);
  pb::Outcome* outcome = MutableOutcome(spec_.cell.kind, &send.message.head);
  pb::Outcome::AtClock* answer = outcome->mutable_at_clock();
  SetCounts(clocks_.counted_clocks[rank], answer);
  answer->set_staleness(ranks_[rank].staleness);
  if (ranks_[rank].is_dropped) answer->set_dropped(true);
  return send;
}

void CountedCell::AddWeights(uint32_t rank, std::optional<uint64_t> held_version,
                             pb::Outcome::Weights* weights, Bytes* payload) {
  ClockCell::Answer answer = spec_.weights->Pull(rank, held_version);
  weights->set_version(spec_.weights->version());
  if (answer.is_fp32) weights->set_whole(true);
  clocks_.answered_versions[rank] = spec_.weights->version();
  *payload = std::move(answer.payload);
}

void CountedCell::AnswerPush(Peer to, uint32_t rank, std::optional<uint64_t> held_version,
                             Sends* out) {
  Send send = MakeAnswerToPush(to, rank);
  pb::Outcome* outcome = MutableOutcome(spec_.cell.kind, &send.message.head);
  AddWeights(rank, held_version, outcome->mutable_at_clock()->mutable_weights(),
             &send.message.payload);
  out->push_back(std::move(send));
}

void CountedCell::SendUnblockedAnswers(Sends* out) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].state != RankState::kWaiting || MustWait(rank)) continue;
    Become(rank, RankState::kTraining);
    AnswerPush(ranks_[rank].peer, rank, ranks_[rank].held_version, out);
  }
}

bool CountedCell::MustStop() const {
  return lane_->stop_requested ||
         (lane_->target_pushes != 0 && clocks_.total >= lane_->target_pushes);
}

bool CountedCell::MustWait(uint32_t rank) const {
  const std::optional<uint64_t>& bound = lane_->options.max_clocks_ahead;
  if (!bound.has_value() || !lane_->options.safeguards.delay_fast_workers || MustStop())
    return false;
  const uint64_t clock = clocks_.counted_clocks[rank];
  return clock > *bound && LeastClock(std::nullopt) < clock - *bound;
}

uint64_t CountedCell::ClockOf(uint32_t rank) const {
  const uint64_t newest_clock = lane_->newest_clocks[rank];
  return std::max({clocks_.counted_clocks[rank], ranks_[rank].least_clock,
                   newest_clock == 0 ? 0 : newest_clock - 1});
}

uint64_t CountedCell::LeastClock(std::optional<uint32_t> excluded_rank) const {
  uint64_t least_clock = kNoClock;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (rank == excluded_rank || lane_->members[rank].incarnation == 0 || parted(rank)) continue;
    least_clock = std::min(least_clock, ClockOf(rank));
  }
  return least_clock;
}

void CountedCell::RestoreClocks(CellClocks clocks) {
  clocks_ = std::move(clocks);
  clocks_.counted_clocks.resize(ranks_.size());
  clocks_.answered_versions.resize(ranks_.size());
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    lane_->newest_clocks[rank] = std::max(lane_->newest_clocks[rank], clocks_.counted_clocks[rank]);
}

size_t CountedCell::num_waiting() const {
  return std::count_if(ranks_.begin(), ranks_.end(),
                       [](const RankEntry& entry) { return entry.state == RankState::kWaiting; });
}

Status CountedCell::CheckWaiting(uint32_t rank) const {
  if (ranks_[rank].state != RankState::kWaiting) return Ok();
  const uint64_t clock = clocks_.counted_clocks[rank];
  TERN_HOLDS(lane_->members[rank].present(), ToString(spec_.cell, clock, "clock"), ": rank ", rank,
             " waits, and is no member");
  // After a stop request the delayed answers are sent with the next message.
  TERN_HOLDS(lane_->stop_requested || MustWait(rank), ToString(spec_.cell, clock, "clock"),
             ": rank ", rank, " waits at clock ", clock, ", and the least is ",
             LeastClock(std::nullopt));
  return Ok();
}

Status CountedCell::Check() const {
  uint64_t max_pushes = 0;  // upper bound of the number of pushes counted
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const uint64_t clock = clocks_.counted_clocks[rank];
    const uint64_t answered_version = clocks_.answered_versions[rank];
    TERN_HOLDS(clock <= kMaxClock, ToString(spec_.cell, clock, "clock"), ": rank ", rank,
               " is at a clock that is none: at most ", kMaxClock);
    TERN_HOLDS(clock <= lane_->newest_clocks[rank], ToString(spec_.cell, clock, "clock"), ": rank ",
               rank, " is at clock ", clock, ", and its newest is ", lane_->newest_clocks[rank]);
    TERN_HOLDS(answered_version <= spec_.weights->version(), ToString(spec_.cell, clock, "clock"),
               ": rank ", rank, " was answered with version ", answered_version,
               ", and the weights are at ", spec_.weights->version());
    TERN_RETURN_IF_ERROR(CheckWaiting(rank));
    max_pushes += std::min(clock, kNoClock - max_pushes);
  }
  TERN_HOLDS(clocks_.total <= max_pushes, ToString(spec_.cell, 0, "clock"), ": counts ",
             clocks_.total, " pushes, and its clocks are ", max_pushes, " together");
  return Ok();
}

}  // namespace tern::protocol
