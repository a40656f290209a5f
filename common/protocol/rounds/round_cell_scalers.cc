// How a RoundCell sees to it that all contributions to a sum were coded with the same scalers
// (scale factors).
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/text.h"
#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/round_cell.h"

namespace tern::protocol {

namespace {

// Whether all contributors to the slot were removed or replaced.
bool AllContributorsRemoved(const RoundSlot& slot, const LaneMembers& members) {
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    if (slot.added(rank) && members[rank].incarnation == slot.arrived_incarnation(rank))
      return false;
  }
  return true;
}

// Returns the digest that the most ranks have; nullopt if two digests have equally many.
std::optional<uint64_t> MostFrequentOf(
    const std::map<uint64_t, std::vector<uint32_t>>& ranks_by_digest) {
  size_t most = 0;
  std::optional<uint64_t> most_frequent;
  for (const auto& [digest, ranks] : ranks_by_digest) {
    if (ranks.size() < most) continue;
    most_frequent = ranks.size() == most ? std::nullopt : std::optional(digest);
    most = ranks.size();
  }
  return most_frequent;
}

}  // namespace

bool RoundCell::AcceptsScalersOf(RoundSlot* slot, const pb::Contribution& c) {
  const uint64_t round = c.in_round().round(), digest = c.in_round().digest();
  // Only pushes are coded with scalers.
  if (spec_.cell.kind != Kind::kPush) return true;
  if (slot->contributors() == 0 || slot->digest() == digest) return true;
  const bool is_elastic = lane_->IsElastic();
  const bool heeds_epochs = lane_->options.safeguards.heed_epochs;
  if (is_elastic && heeds_epochs && c.epoch() > lane_->members.epoch()) {
    // The earlier contributors may have been removed or replaced. This lane learns that from the
    // newer membership.
    ++lane_->counters.early;
    for (const Contributor& each : ContributorsOf(c)) lane_->refused_for_now[each.rank] = true;
    return false;
  }
  if (!is_elastic || !AllContributorsRemoved(*slot, lane_->members)) {
    ++lane_->counters.bad;
    for (const Contributor& each : ContributorsOf(c))
      slot->NoteOtherScalers(each.rank, each.incarnation, digest);
    return false;
  }
  // No present member has the scalers of the slot: their server restarted and lost them, and all
  // workers that had received them are gone. So the slot starts again with the new scalers.
  slot->Open(spec_.open(round));
  return true;
}

void RoundCell::SettleScalers(uint64_t round, RoundSlot* slot, Sends* out) {
  if (slot->other_scalers().empty()) return;
  std::map<uint64_t, std::vector<uint32_t>> ranks_by_digest;
  std::vector<std::string> who_used_what;
  std::vector<bool> is_by_former_process(lane_->members.size());
  for (uint32_t rank = 0; rank < lane_->members.size(); ++rank) {
    const LaneMember& member = lane_->members[rank];
    const auto other = slot->other_scalers().find(rank);
    const bool used_others =
        other != slot->other_scalers().end() && other->second.incarnation == member.incarnation;
    if (!used_others && slot->arrived_incarnation(rank) == 0 && lane_->IsRequired(member)) return;
    if (!used_others && !slot->added(rank)) continue;
    is_by_former_process[rank] =
        !used_others && slot->arrived_incarnation(rank) != member.incarnation;
    const uint64_t digest = used_others ? other->second.digest : slot->digest();
    ranks_by_digest[digest].push_back(rank);
    who_used_what.push_back(Cat("rank ", rank, " ", Hex(digest)));
  }
  const std::string sentence = Cat("the workers coded ", ToString(spec_.cell, round),
                                   " with different scalers: ", Join(who_used_what));
  const std::optional<uint64_t> right_digest = MostFrequentOf(ranks_by_digest);
  if (!right_digest.has_value()) return RefuseAllMembers(lane_->members, sentence, out);
  const bool restarts = *right_digest != slot->digest();
  if (restarts) slot->Open(spec_.open(round));
  for (const auto& [digest, ranks] : ranks_by_digest) {
    for (const uint32_t rank : ranks) {
      const Peer peer = lane_->members[rank].peer;
      if (digest != *right_digest && !is_by_former_process[rank]) {
        out->push_back(RefusalTo(peer, Code::kMismatch, sentence, pb::Refuse::leave));
      } else if (restarts) {
        out->push_back(RefusalTo(peer, Code::kOk, "the sum starts again", pb::Refuse::again));
      }
    }
  }
}

}  // namespace tern::protocol
