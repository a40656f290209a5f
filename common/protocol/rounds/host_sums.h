// How a RoundLane takes sums that the leader of a host made for several workers
// (exchange.host_sum), and answers them. A slot is one reduction over the workers in one round.
#pragma once

#include <vector>

#include "common/protocol/rounds/forms.h"
#include "common/protocol/rounds/lane_members.h"
#include "common/protocol/rounds/message.h"
#include "common/protocol/rounds/round_slot.h"

namespace tern::protocol {

// Whether the ranks whose contributions the message has are of this job, and in ascending order.
bool AreRanksInOrder(const pb::Contribution& c, size_t num_ranks);
// How many of the contributors have counted in the slot.
size_t NumCounted(const RoundSlot& slot, const std::vector<Contributor>& contributors);
// Whether the leader of its host hands the slot's answer on to this rank.
bool HearsFromItsHost(const LaneMembers& members, const RoundSlot& slot, uint32_t rank);
// Who gets the answer to a contribution that came from `from`: all of a host's sum.
std::vector<Peer> PeersToAnswer(const LaneMembers& members, Peer from, const pb::Contribution& c);
// Asks those of a host's sum that are members, and have not counted in the slot, to repeat their
// contributions themselves. Null: there is no slot.
void AskToRepeat(const LaneMembers& members, const RoundSlot* slot, const pb::Contribution& c,
                 Sends* out);

}  // namespace tern::protocol
