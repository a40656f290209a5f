#include "common/protocol/rounds/host_sums.h"

#include <algorithm>

namespace tern::protocol {

namespace {

// The connections of those contributors that are members.
std::vector<Peer> PeersOf(const LaneMembers& members,
                          const std::vector<Contributor>& contributors) {
  std::vector<Peer> peers;
  for (const Contributor& each : contributors) {
    const LaneMember& member = members[each.rank];
    if (member.peer != 0 && member.incarnation == each.incarnation) peers.push_back(member.peer);
  }
  return peers;
}

}  // namespace

bool AreRanksInOrder(const pb::Contribution& c, size_t num_ranks) {
  const std::vector<Contributor> contributors = ContributorsOf(c);
  const auto are_not_ascending = [](const Contributor& a, const Contributor& b) {
    return a.rank >= b.rank;
  };
  return contributors.back().rank < num_ranks &&
         std::adjacent_find(contributors.begin(), contributors.end(), are_not_ascending) ==
             contributors.end();
}

size_t NumCounted(const RoundSlot& slot, const std::vector<Contributor>& contributors) {
  return static_cast<size_t>(std::count_if(
      contributors.begin(), contributors.end(),
      [&slot](const Contributor& each) { return slot.arrived_incarnation(each.rank) != 0; }));
}

bool HearsFromItsHost(const LaneMembers& members, const RoundSlot& slot, uint32_t rank) {
  const Contributor sender = slot.sender_of(rank);
  if (sender.incarnation == 0 || sender.rank == rank) return false;
  const LaneMember& leader = members[sender.rank];
  return leader.peer != 0 && leader.incarnation == sender.incarnation;
}

std::vector<Peer> PeersToAnswer(const LaneMembers& members, Peer from, const pb::Contribution& c) {
  if (!IsPartialSum(c)) return {from};
  return PeersOf(members, ContributorsOf(c));
}

void AskToRepeat(const LaneMembers& members, const RoundSlot* slot, const pb::Contribution& c,
                 Sends* out) {
  std::vector<Contributor> contributors = ContributorsOf(c);
  std::erase_if(contributors, [slot](const Contributor& each) {
    return slot != nullptr && slot->arrived_incarnation(each.rank) != 0;
  });
  for (const Peer peer : PeersOf(members, contributors))
    out->push_back(RefusalTo(peer, Code::kOk, "a sum of its host was refused", pb::Refuse::again));
}

}  // namespace tern::protocol
