// How a RoundCell takes sums that the leader of a host made (exchange.host_sum), and answers them.
#include <algorithm>

#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/round_cell.h"

namespace tern::protocol {

size_t RoundCell::NumCounted(const RoundSlot& slot, const std::vector<Contributor>& contributors) {
  return static_cast<size_t>(
      std::count_if(contributors.begin(), contributors.end(), [&slot](const Contributor& each) {
        return slot.arrived_incarnation(each.rank) != 0;
      }));
}

void RoundCell::AskMissing(const pb::Contribution& c, Sends* out) {
  const auto found = slots_.find(ExchangeOf(c));
  for (const Contributor& each : ContributorsOf(c)) {
    const LaneMember& member = lane_->members[each.rank];
    if (member.peer == 0 || member.incarnation != each.incarnation) continue;
    if (found != slots_.end() && found->second.arrived_incarnation(each.rank) != 0) continue;
    out->push_back({member.peer, MakeRefuse(0, "a sum of its host was refused", pb::Refuse::again)});
  }
}

bool RoundCell::HearsFromItsHost(const RoundSlot& slot, uint32_t rank) const {
  const Contributor sender = slot.sender_of(rank);
  if (sender.incarnation == 0 || sender.rank == rank) return false;
  const LaneMember& leader = lane_->members[sender.rank];
  return leader.peer != 0 && leader.incarnation == sender.incarnation;
}

void RoundCell::AnswerContributors(const RoundSlot& slot, Peer from, const pb::Contribution& c,
                                   Sends* out) const {
  if (!IsPartialSum(c)) return SendOutcome(slot, from, out);
  for (const Contributor& each : ContributorsOf(c)) {
    const LaneMember& member = lane_->members[each.rank];
    if (member.peer != 0 && member.incarnation == each.incarnation)
      SendOutcome(slot, member.peer, out);
  }
}

}  // namespace tern::protocol
