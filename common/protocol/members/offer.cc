#include "common/protocol/members/offer.h"

#include <algorithm>

namespace tern::protocol {

bool Offer::Needs(const pb::Checkpoint& checkpoint) const {
  if (!is_required) return false;
  if (hello->role() == pb::Hello::shard) return !checkpoint.has_shards();
  if (!checkpoint.has_workers() || hello->unfit().other_job()) return true;
  return hello->rank() < checkpoint.workers();
}

const pb::Checkpoint* Offer::Find(const pb::Checkpoint& checkpoint) const {
  const auto& own = hello->checkpoints();
  const auto found = std::find_if(own.begin(), own.end(), [&](const pb::Checkpoint& candidate) {
    return BelongTogether(candidate, checkpoint);
  });
  return found == own.end() ? nullptr : &*found;
}

}  // namespace tern::protocol
