// Finds what a daemon tells server shard 0 about the checkpoints on the daemon's disk.
#pragma once

#include <vector>

#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "setup/setup.h"

namespace tern::setup {

// The checkpoints of one kind in `store`, a daemon's folder, that are complete and belong to the
// daemon. All daemons write checkpoints of Kind::kOfAll, only shards write those of Kind::kShard.
std::vector<pb::Checkpoint> OffersOf(const checkpoint::Store& store,
                                     checkpoint::Kind kind = checkpoint::Kind::kOfAll);
// The keys, without addresses of servers, whose values differ between the job that has executed
// `run` so far and that of `setup`, as Differences tells them, and what the job loses by that
// (WhatIsDropped); empty if there are none, or if run.json of `store` is of another run.
std::string ChangesAtResume(const Setup& setup, const checkpoint::Store& store, uint64_t run);
// The same for the run in run.json in worker 0's folder of output_dir, for a process that uses no
// checkpoints. Call before the job starts.
std::string ChangesSinceLastRun(const Setup& setup);
// The usable checkpoints of both kinds. If there are checkpoints of Kind::kOfAll that cannot be
// used, also a sentence that says why; if they belong to another job, the sentence names up to
// three keys that differ. REQUIRES that store.Open() was called.
protocol::SavedCheckpoints FindSaved(const Setup& setup, const checkpoint::Store& store);

// How many checkpoints of Kind::kOfAll each daemon keeps, so that all have one in common; 0 if the
// job writes none. That is checkpoints.keep or, if rounds may close without a slow worker, as many
// as the others may write before that worker writes its next.
uint32_t NumCheckpointsToKeep(const Setup& setup);

// Whether all daemons of the job can write a checkpoint when one is asked for (SIGUSR1): it has
// checkpoints, and rounds after which to write them. Logs why not.
bool CanCheckpointOnRequest(const Setup& setup);

}  // namespace tern::setup
