#include "common/protocol/rounds/round_slot.h"

#include <utility>

#include "common/base/invariants.h"

namespace tern::protocol {

namespace {

using State = RoundSlot::State;

constexpr const char* kSlotStates[] = {"new", "open", "closed", "restored"};

const char* NameOf(State state) { return kSlotStates[static_cast<size_t>(state)]; }

bool HasArrow(State from, State to) {
  switch (from) {
    case State::kNew:
      return to == State::kOpen || to == State::kRestored;
    case State::kOpen:
      return to != State::kNew;
    case State::kClosed:
    case State::kRestored:
      return false;
  }
  return false;
}

}  // namespace

bool RoundSlot::Become(State next) {
  const bool is_allowed = HasArrow(state_, next);
  TERN_REQUIRES(is_allowed, "a slot that is ", NameOf(state_), " cannot become ", NameOf(next));
  if (is_allowed) state_ = next;
  return is_allowed;
}

void RoundSlot::Open(std::unique_ptr<CellSum> sum) {
  if (!Become(State::kOpen)) return;
  sum_ = std::move(sum);
  arrived_incarnations_.assign(arrived_incarnations_.size(), 0);
  is_added_.assign(is_added_.size(), false);
  senders_.assign(senders_.size(), {});
  num_contributors_ = 0;
  digest_ = 0;
  other_scalers_.clear();
}

void RoundSlot::NoteOtherScalers(uint32_t rank, uint64_t incarnation, uint64_t digest) {
  TERN_REQUIRES(state_ == State::kOpen, "rank ", rank, " used other scalers for a slot that is ",
                NameOf(state_));
  other_scalers_[rank] = {incarnation, digest};
}

Status RoundSlot::Add(const std::vector<Contributor>& contributors, Contributor sender,
                      uint64_t digest, const Bytes& payload) {
  const uint32_t first = contributors.front().rank;
  TERN_REQUIRES(state_ == State::kOpen, "rank ", first, " adds to a slot that is ", NameOf(state_));
  TERN_REQUIRES(num_contributors_ == 0 || digest == digest_, "rank ", first, " used scalers ",
                digest, ", others ", digest_);
  std::vector<uint32_t> ranks;
  for (const Contributor& each : contributors) {
    TERN_REQUIRES(!is_added_[each.rank], "rank ", each.rank, " is added twice");
    ranks.push_back(each.rank);
  }
  TERN_RETURN_IF_ERROR(ranks.size() == 1 ? sum_->Add(first, payload)
                                         : sum_->AddPartial(ranks, payload));
  digest_ = digest;
  for (const Contributor& each : contributors) {
    is_added_[each.rank] = true;
    arrived_incarnations_[each.rank] = each.incarnation;
    senders_[each.rank] = sender;
  }
  num_contributors_ += static_cast<uint32_t>(ranks.size());
  return Ok();
}

void RoundSlot::MarkArrived(uint32_t rank, uint64_t incarnation) {
  TERN_REQUIRES(!is_added_[rank], "rank ", rank, " comes again, and is in the sum");
  arrived_incarnations_[rank] = incarnation;
}

void RoundSlot::Close(bool even_if_empty) {
  if (!Become(State::kClosed)) return;
  if (num_contributors_ != 0 || even_if_empty) payload_ = sum_->Close();
  sum_.reset();
  outcome_.mutable_of_round()->set_contributors(num_contributors_);
  outcome_.mutable_of_round()->set_contributor_bits(ContributorBits(is_added_));
}

void RoundSlot::Restore(const pb::Outcome& held, Bytes payload) {
  if (!Become(State::kRestored)) return;
  sum_.reset();
  for (uint32_t rank = 0; rank < is_added_.size(); ++rank) {
    is_added_[rank] = HasContributed(held.of_round().contributor_bits(), rank);
    arrived_incarnations_[rank] = is_added_[rank] ? 1 : 0;
    senders_[rank] = {};
  }
  num_contributors_ = held.of_round().contributors();
  digest_ = 0;
  outcome_ = held;
  outcome_.mutable_of_round()->set_contributor_bits(ContributorBits(is_added_));
  payload_ = std::move(payload);
}

Status RoundSlot::Check(const Cell& cell, uint64_t round) const {
  const bool is_open = state_ == State::kOpen;
  TERN_HOLDS(state_ != State::kNew, ToString(cell, round), ": kept, but neither open nor closed");
  TERN_HOLDS((sum_ != nullptr) == is_open, ToString(cell, round), ": ", NameOf(state_),
             ", and has ", sum_ == nullptr ? 0 : 1, " sums");
  uint32_t num_added = 0;
  for (uint32_t rank = 0; rank < is_added_.size(); ++rank) {
    num_added += is_added_[rank];
    TERN_HOLDS(!is_added_[rank] || arrived_incarnations_[rank] != 0, ToString(cell, round),
               ": rank ", rank, " is in the sum, and has not come");
  }
  TERN_HOLDS(num_added == num_contributors_, ToString(cell, round), ": counts ", num_contributors_,
             " contributors, and has ", num_added, " in its sum");
  if (is_open) {
    TERN_HOLDS(payload_.empty(), ToString(cell, round), ": open, and has an answer of ",
               payload_.size(), " bytes");
    return Ok();
  }
  const pb::Outcome::OfRound& of_round = outcome_.of_round();
  TERN_HOLDS(of_round.round() == round, ToString(cell, round), ": its outcome is of round ",
             of_round.round());
  TERN_HOLDS(outcome_.bucket() == cell.bucket && outcome_.chunk() == cell.chunk,
             ToString(cell, round), ": its outcome is of bucket ", outcome_.bucket(), ", chunk ",
             outcome_.chunk());
  TERN_HOLDS(of_round.contributors() == num_contributors_, ToString(cell, round),
             ": its outcome tells of ", of_round.contributors(), " contributors, it has ",
             num_contributors_);
  for (uint32_t rank = 0; rank < is_added_.size(); ++rank) {
    TERN_HOLDS(HasContributed(of_round.contributor_bits(), rank) == is_added_[rank],
               ToString(cell, round), ": rank ", rank,
               is_added_[rank] ? " is in the sum, and its outcome does not name it"
                               : " is named by the outcome, and is not in the sum");
  }
  return Ok();
}

}  // namespace tern::protocol
