// What a daemon tells shard 0 about the checkpoints on its disk.
#pragma once

#include <vector>

#include "common/checkpoint/store.h"
#include "common/protocol/members/resume.h"
#include "setup/setup.h"

namespace tern::setup {

// The checkpoints that are complete and belong to this job.
std::vector<pb::Checkpoint> OffersOf(const checkpoint::Store& store);
// The same, with a sentence why other checkpoints cannot be used. For checkpoints of another job it
// names up to three keys of the job that differ. REQUIRES that the store is open.
protocol::Saved FindSaved(const Setup& setup, const checkpoint::Store& store);

}  // namespace tern::setup
