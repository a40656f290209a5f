// What a daemon tells shard 0 about the checkpoints on its disk.
#pragma once

#include <vector>

#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "setup/setup.h"

namespace tern::setup {

// The checkpoints of that kind that are complete and belong to this job.
std::vector<pb::Checkpoint> OffersOf(const checkpoint::Store& store,
                                     checkpoint::Kind kind = checkpoint::Kind::kOfAll);
// Both kinds; with a sentence why other checkpoints of all daemons cannot be used. For checkpoints
// of another job it names up to three keys of the job that differ. REQUIRES that the store is open.
protocol::Saved FindSaved(const Setup& setup, const checkpoint::Store& store);

}  // namespace tern::setup
