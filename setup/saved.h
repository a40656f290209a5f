// What a daemon says of the checkpoints on its disk.
#pragma once

#include <vector>

#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "setup/setup.h"

namespace tern::setup {

// Those of that kind that are whole and ours.
std::vector<pb::Checkpoint> OffersOf(const checkpoint::Store& store,
                                     checkpoint::Kind kind = checkpoint::Kind::kOfAll);
// Both kinds; and of those of all daemons that are not whole or not ours a sentence which names,
// where they are of another job, up to three keys of the job that differ. REQUIRES the store
// opened.
protocol::Saved SavedIn(const Setup& setup, const checkpoint::Store& store);

}  // namespace tern::setup
