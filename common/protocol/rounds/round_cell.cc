#include "common/protocol/rounds/round_cell.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/invariants.h"
#include "common/base/text.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/host_sums.h"

namespace tern::protocol {

namespace {

// Whether the rank's contribution is in the slot's sum, and its sender is still the member of the
// rank.
bool IsPresentContributor(uint32_t rank, const RoundSlot& slot, const LaneMembers& members) {
  return slot.added(rank) && members[rank].incarnation == slot.arrived_incarnation(rank);
}

bool AnyContributorRemoved(const RoundSlot& slot, const LaneMembers& members) {
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    if (slot.added(rank) && !IsPresentContributor(rank, slot, members)) return true;
  }
  return false;
}

// Whether a required rank has not arrived at the slot. The search begins at the rank found last, so
// that all searches of a round together take time in proportion to the number of workers.
bool AwaitsARank(const RoundLaneState& lane, const RoundSlot& slot) {
  const auto num_workers = static_cast<uint32_t>(lane.members.size());
  for (uint32_t i = 0; i < num_workers; ++i) {
    const uint32_t rank = (slot.awaited_rank + i) % num_workers;
    if (slot.arrived_incarnation(rank) != 0 || !lane.IsRequired(lane.members[rank])) continue;
    slot.awaited_rank = rank;
    return true;
  }
  return false;
}

// After a request for a checkpoint of all daemons, sets lane->checkpoint_round, which the outcome
// of `round` names: a window ahead, because no worker is beyond that. Each worker marks its push of
// that round, from which the other lanes learn it in time. Returns false if a regular checkpoint
// comes within a few rounds, which then serves: checkpoints closer than a window could push each
// other out before all daemons have one in common.
bool DecidesCheckpoint(uint64_t round, RoundLaneState* lane) {
  if (!lane->checkpoint_requested || round <= lane->checkpoint_round) return false;
  lane->checkpoint_requested = false;
  if (lane->last_round != 0) return false;  // the last checkpoint serves
  const uint64_t window = lane->options.window;
  const auto& is_due = lane->options.is_checkpoint_due;
  if (is_due && is_due(round + 1, round + 2 * window)) return false;
  lane->checkpoint_round = round + window;
  return true;
}

}  // namespace

RoundLaneState::RoundLaneState(RoundLaneOptions given_options)
    : options(std::move(given_options)),
      members(options.workers),
      refused_for_now(options.workers),
      late_by_rank(options.workers) {}

size_t RoundLaneState::MaxSlots() const {
  // Members are at most `window` rounds apart. Another `window` rounds may have contributions of
  // members that were replaced after they had contributed.
  if (!IsElastic()) return 2 * size_t{options.window} + 2;
  return MaxElasticSlots(options.window, options.max_ahead);
}

RoundCell::RoundCell(CellSpec spec, RoundLaneState* lane) : spec_(std::move(spec)), lane_(lane) {}

void RoundCell::AnswerPull(Peer from, const pb::Contribution& c, Sends* out) const {
  TERN_REQUIRES(spec_.pull != nullptr, ToString(spec_.cell, c), ": cannot be pulled");
  Send send{from, {}};
  pb::Outcome* outcome = MutableOutcome(spec_.cell.kind, &send.message.head);
  outcome->set_bucket(c.bucket());
  outcome->set_chunk(c.chunk());
  pb::Outcome::Pulled* answer = outcome->mutable_pulled();
  answer->set_number(c.pull().number());
  CellSpec::PullAnswer pulled_values = spec_.pull(c.pull().has_average());
  if (c.pull().has_average()) {
    answer->mutable_average();
  } else {
    pb::Outcome::Weights* weights = answer->mutable_weights();
    if (pulled_values.is_fp32) weights->set_whole(true);
  }
  send.message.payload = std::move(pulled_values.payload);
  out->push_back(std::move(send));
}

void RoundCell::Contribute(Peer from, const pb::Contribution& c, const Bytes& payload, Sends* out) {
  RoundSlot* const slot = FindOrOpenSlot(from, c, out);
  if (slot == nullptr) return;
  if (slot->closed()) {
    CountLateOrRepeated(slot, c);
    if (!lane_->options.safeguards.keep_until_applied) return;
    for (const Peer peer : PeersToAnswer(lane_->members, from, c)) SendOutcome(*slot, peer, out);
    return;
  }
  const std::vector<Contributor> contributors = ContributorsOf(c);
  const size_t num_counted = NumCounted(*slot, contributors);
  if (num_counted != 0 && lane_->options.safeguards.count_once) {
    if (num_counted == contributors.size()) {
      ++lane_->counters.repeated;
      return;
    }
    ++lane_->counters.split;
    return AskToRepeat(lane_->members, slot, c, out);
  }
  if (c.has_skip()) {
    ++lane_->counters.skipped;
    slot->MarkArrived(c.rank(), c.incarnation());
  } else if (!AddToSlot(from, slot, c, payload, out)) {
    // The slot may be gone.
    if (const auto found = slots_.find(ExchangeOf(c)); found != slots_.end())
      SettleScalers(found->first, &found->second, out);
    return;
  }
  SettleScalers(ExchangeOf(c), slot, out);
  CloseReadySlots(out);
}

RoundSlot* RoundCell::FindOrOpenSlot(Peer from, const pb::Contribution& c, Sends* out) {
  const uint64_t round = ExchangeOf(c);
  if (round <= lane_->floor) {  // every member has applied this round
    ++lane_->counters.stale;
    out->push_back(RefusalTo(
        from, Code::kNotAllowed,
        ToString(spec_.cell, round) + " is stale: the floor is " + std::to_string(lane_->floor),
        pb::Refuse::ignore));
    out->back().message.head.mutable_refuse()->set_floor(lane_->floor);
    return nullptr;
  }
  if (const auto found = slots_.find(round); found != slots_.end()) return &found->second;
  if (!MakeRoomFor(round)) {
    ++lane_->counters.early;
    if (lane_->IsElastic()) {
      for (const Contributor& each : ContributorsOf(c)) lane_->refused_for_now[each.rank] = true;
    } else {
      out->push_back(RefusalTo(from, Code::kNotAllowed, ToString(spec_.cell, round) + " is early",
                               pb::Refuse::ignore));
    }
    return nullptr;
  }
  RoundSlot& slot = slots_.try_emplace(round, lane_->members.size()).first->second;
  slot.Open(spec_.open(round));
  return &slot;
}

bool RoundCell::MakeRoomFor(uint64_t round) {
  // With a quorum or shrink, the last `window` slots are reserved for the rounds of the slowest
  // worker, because only its progress moves the floor.
  const uint32_t window = lane_->options.window;
  const bool is_for_slowest_worker = !lane_->IsElastic() || round <= lane_->floor + window;
  const size_t max_slots = lane_->MaxSlots() - (is_for_slowest_worker ? 0 : window);
  if (slots_.size() < max_slots) return true;
  const size_t num_to_drop = slots_.size() - max_slots + 1;
  auto newest = slots_.rbegin();
  for (size_t i = 0; i < num_to_drop; ++i, ++newest) {
    if (newest == slots_.rend() || newest->first <= round || newest->second.closed()) return false;
  }
  for (size_t i = 0; i < num_to_drop; ++i) {
    const auto dropped = std::prev(slots_.end());
    for (uint32_t rank = 0; rank < lane_->members.size(); ++rank) {
      if (lane_->IsElastic() && dropped->second.arrived_incarnation(rank) != 0)
        lane_->refused_for_now[rank] = true;
    }
    slots_.erase(dropped);
  }
  return true;
}

void RoundCell::CountLate(const pb::Contribution& c) {
  const auto found = slots_.find(ExchangeOf(c));
  if (found != slots_.end() && found->second.closed()) CountLateOrRepeated(&found->second, c);
}

void RoundCell::CountLateOrRepeated(RoundSlot* slot, const pb::Contribution& c) {
  for (const Contributor& each : ContributorsOf(c)) {
    if (slot->arrived_incarnation(each.rank) != 0 || c.has_skip()) {
      ++lane_->counters.repeated;
      continue;
    }
    slot->MarkArrived(each.rank, each.incarnation);
    ++lane_->counters.late;
    ++lane_->late_by_rank[each.rank];
  }
}

bool RoundCell::AddToSlot(Peer from, RoundSlot* slot, const pb::Contribution& c,
                          const Bytes& payload, Sends* out) {
  if (!AcceptsScalersOf(slot, c)) return false;
  const uint64_t round = c.in_round().round();
  const bool is_push = spec_.cell.kind == Kind::kPush;
  const uint64_t digest = is_push ? c.in_round().digest() : 0;
  if (is_push && c.in_round().checkpoint() && lane_->options.on_checkpoint_round)
    lane_->options.on_checkpoint_round(round);
  const std::vector<Contributor> contributors = ContributorsOf(c);
  const Status add_status = slot->Add(contributors, {c.rank(), c.incarnation()}, digest, payload);
  if (!add_status.ok()) {
    ++lane_->counters.bad;
    // A part of the payload may be in the sum already, so the slot is dropped. The other workers
    // repeat their contributions.
    slots_.erase(round);
    out->push_back(RefusalTo(from, add_status.code(),
                             ToString(spec_.cell, round) + " of rank " + std::to_string(c.rank()) +
                                 ": " + add_status.message(),
                             pb::Refuse::leave));
    return false;
  }
  lane_->counters.counted += contributors.size();
  lane_->counters.host_sums += contributors.size() > 1;
  return true;
}

void RoundCell::DropSlotsOfRemovedMembers() {
  if (!lane_->IsElastic() || !spec_.is_for_members_only) return;
  std::erase_if(slots_, [this](const auto& item) {
    const RoundSlot& slot = item.second;
    if (slot.closed() || !AnyContributorRemoved(slot, lane_->members)) return false;
    for (uint32_t rank = 0; rank < lane_->members.size(); ++rank) {
      if (IsPresentContributor(rank, slot, lane_->members)) lane_->refused_for_now[rank] = true;
    }
    return true;
  });
}

void RoundCell::DropUpTo(uint64_t floor) {
  slots_.erase(slots_.begin(), slots_.upper_bound(floor));
}

bool RoundCell::IsReadyToClose(uint64_t round, const RoundSlot& slot) const {
  if (!AwaitsARank(*lane_, slot)) {
    for (uint32_t rank = 0; rank < lane_->members.size(); ++rank)
      if (slot.arrived_incarnation(rank) != 0) return true;
    return false;  // nobody has arrived, and nobody is required
  }
  const uint32_t quorum = lane_->options.quorum;
  if (quorum == 0 || spec_.waits_for_all || round <= lane_->newest_held_round) return false;
  uint32_t num_required = 0, num_arrived = 0;
  for (uint32_t rank = 0; rank < lane_->members.size(); ++rank) {
    num_arrived += slot.arrived_incarnation(rank) != 0;
    num_required += lane_->IsRequired(lane_->members[rank]);
  }
  return num_arrived != 0 && num_arrived >= std::min(quorum, num_required);
}

void RoundCell::CloseReadySlots(Sends* out) {
  uint64_t previous_round = lane_->floor;
  for (auto& [round, slot] : slots_) {
    if (!slot.closed()) {
      if (spec_.closes_every_round && round != previous_round + 1) return;
      if (!IsReadyToClose(round, slot)) return;
      CloseSlot(round, &slot, out);
    }
    previous_round = round;
  }
}

void RoundCell::CloseSlot(uint64_t round, RoundSlot* slot, Sends* out) {
  slot->Close(spec_.closes_every_round);
  ++lane_->counters.closed;
  if (lane_->options.decides_last_round && lane_->stop_requested && lane_->last_round == 0) {
    // No worker can be beyond the last round that is set here. (A worker may have begun the step of
    // that round, but needs this outcome before it pushes.)
    lane_->last_round = round + lane_->options.window;
  }
  pb::Outcome& outcome = slot->outcome();
  outcome.mutable_of_round()->set_round(round);
  outcome.set_bucket(spec_.cell.bucket);
  outcome.set_chunk(spec_.cell.chunk);
  if (lane_->options.learning_rate) outcome.set_learning_rate(lane_->options.learning_rate(round));
  if (lane_->last_round != 0) outcome.mutable_of_round()->set_stop_after(lane_->last_round);
  if (lane_->options.decides_last_round && DecidesCheckpoint(round, lane_))
    outcome.mutable_of_round()->set_checkpoint_after(lane_->checkpoint_round);
  CheckAgreement(round, *slot);
  for (uint32_t rank = 0; rank < lane_->members.size(); ++rank) {
    const Peer peer = lane_->members[rank].peer;
    if (peer != 0 && !HearsFromItsHost(lane_->members, *slot, rank)) SendOutcome(*slot, peer, out);
  }
  if (!lane_->options.safeguards.keep_until_applied) slot->DropPayload();
}

void RoundCell::CheckAgreement(uint64_t round, const RoundSlot& slot) {
  if (!spec_.check_agreement || slot.contributors() == 0 || !lane_->agreement.status.ok()) return;
  lane_->agreement.status = spec_.check_agreement(slot.payload(), round);
  if (lane_->agreement.status.ok())
    lane_->agreement.newest_round = std::max(lane_->agreement.newest_round, round - 1);
}

void RoundCell::SendOutcome(const RoundSlot& slot, Peer to, Sends* out) const {
  if (!lane_->agreement.status.ok()) return;
  Send send{to, {}};
  pb::Outcome* outcome = MutableOutcome(spec_.cell.kind, &send.message.head);
  *outcome = slot.outcome();
  outcome->mutable_of_round()->set_floor(lane_->floor);
  send.message.payload = slot.payload();
  out->push_back(std::move(send));
}

void RoundCell::ResendMissedOutcomes(const LaneMember& member, Sends* out) const {
  for (const auto& [round, slot] : slots_) {
    if (slot.closed() && round > member.applied) SendOutcome(slot, member.peer, out);
  }
}

}  // namespace tern::protocol
