#include "common/protocol/members/attendance.h"

#include <algorithm>

namespace tern::protocol {

namespace {

bool IsWorker(const Offer& offer) { return offer.hello->role() != pb::Hello::shard; }

bool HasOneOfOtherRun(const pb::Hello& hello, uint64_t run) {
  return std::any_of(hello.checkpoints().begin(), hello.checkpoints().end(),
                     [run](const pb::Checkpoint& own) { return own.run() != run; });
}

}  // namespace

Attendance::Attendance(const std::vector<Offer>& offers, size_t min_workers, Rule rule)
    : min_workers_(min_workers), rule_(rule) {
  std::vector<std::vector<const pb::Hello*>> holders;  // as known_: those that have it
  for (const Offer& offer : offers) {
    if (!offer.is_required || !offer.may_join_later || !IsWorker(offer)) continue;
    std::set<uint64_t> runs;
    if (offer.hello->began() != 0) runs.insert(offer.hello->began());
    for (const pb::Checkpoint& own : offer.hello->checkpoints()) {
      runs.insert(own.run());
      const auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& other) {
        return BelongTogether(own, other);
      });
      const auto index = static_cast<size_t>(known - known_.begin());
      if (known == known_.end()) {
        known_.push_back(own);
        holders.emplace_back();
      } else if (known->weights_hash() == 0) {
        *known = own;
      } else if (own.weights_hash() != 0 && own.weights_hash() != known->weights_hash()) {
        differing_.insert(offer.hello);
        differing_.insert(holders[index].begin(), holders[index].end());
      }
      holders[index].push_back(offer.hello);
    }
    for (const uint64_t run : runs) ++num_took_part_[run];
  }
}

bool Attendance::AnyWorkerHas(const pb::Checkpoint& checkpoint) const {
  return std::any_of(known_.begin(), known_.end(), [&](const pb::Checkpoint& known) {
    return BelongTogether(known, checkpoint);
  });
}

const pb::Checkpoint* Attendance::Before(const pb::Checkpoint& checkpoint) const {
  const pb::Checkpoint* before = nullptr;
  for (const pb::Checkpoint& known : known_) {
    if (known.run() != checkpoint.run() || KeyOf(known) >= KeyOf(checkpoint)) continue;
    if (before == nullptr || KeyOf(known) > KeyOf(*before)) before = &known;
  }
  return before;
}

size_t Attendance::NumNewer(const pb::Checkpoint& checkpoint, uint64_t max_round) const {
  return static_cast<size_t>(
      std::count_if(known_.begin(), known_.end(), [&](const pb::Checkpoint& known) {
        return known.run() == checkpoint.run() && known.round() <= max_round &&
               KeyOf(known) > KeyOf(checkpoint);
      }));
}

bool Attendance::Needs(const Offer& offer, const pb::Checkpoint& checkpoint) const {
  if (!offer.is_required || !offer.may_join_later || !IsWorker(offer))
    return offer.Needs(checkpoint);
  if (!AnyWorkerHas(checkpoint)) return true;  // A shard's alone is not the state of the job.
  if (!offer.Needs(checkpoint)) return false;
  const pb::Hello& hello = *offer.hello;
  if (offer.Find(checkpoint) != nullptr || hello.unfit().other_job()) return true;
  if (HasOneOfOtherRun(hello, checkpoint.run()) || differing_.contains(&hello)) return true;
  const auto num_took_part = num_took_part_.find(checkpoint.run());
  if (num_took_part == num_took_part_.end() || num_took_part->second < min_workers_) return true;
  if (hello.checkpoints().empty() || rule_ == Rule::kAnyHolder) return false;
  const pb::Checkpoint* const before = Before(checkpoint);
  return before == nullptr || std::any_of(hello.checkpoints().begin(), hello.checkpoints().end(),
                                          [&](const pb::Checkpoint& own) {
                                            return KeyOf(own) == KeyOf(*before) ||
                                                   KeyOf(own) > KeyOf(checkpoint);
                                          });
}

}  // namespace tern::protocol
