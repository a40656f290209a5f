// What a daemon tells shard 0 about the checkpoints on its disk.
#pragma once

#include <vector>

#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "setup/setup.h"

namespace tern::setup {

// The checkpoints of one kind in `store` that are complete and belong to its owner.
std::vector<pb::Checkpoint> OffersOf(const checkpoint::Store& store,
                                     checkpoint::Kind kind = checkpoint::Kind::kOfAll);
// The checkpoints of both kinds. If others of Kind::kOfAll cannot be used, also a sentence that
// says why; for those of another job it names up to three keys of the job that differ. REQUIRES
// that the store is open.
protocol::Saved FindSaved(const Setup& setup, const checkpoint::Store& store);

}  // namespace tern::setup
