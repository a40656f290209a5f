// What a daemon says of the checkpoints on its disk.
#pragma once

#include <vector>

#include "common/checkpoint/store.h"
#include "common/protocol/members/resume.h"
#include "setup/setup.h"

namespace tern::setup {

// Those that are whole and ours.
std::vector<pb::Checkpoint> OffersOf(const checkpoint::Store& store);
// The same, and of those that are not a sentence which names, where they are of another job, up to
// three keys of the job that differ. REQUIRES the store opened.
protocol::Saved SavedIn(const Setup& setup, const checkpoint::Store& store);

}  // namespace tern::setup
