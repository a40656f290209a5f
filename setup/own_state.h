// What the daemons of a job keep that no other daemon has, and what becomes of it when the job goes
// on from a checkpoint with another number of workers, or with other server shards.
#pragma once

#include <string>
#include <vector>

#include "setup/setup.h"

namespace tern::setup {

// Whether a codec of the job keeps, on a worker, something of earlier gradients.
bool HasCodecMemory(const Setup& setup);
// Whether a worker has state of its own in its checkpoints: local weights, or codecs' memories.
bool WorkersKeepOwnState(const Setup& setup);
// Whether servers keep something of earlier sums, for workers that hold the weights.
bool ServersKeepCodecState(const Setup& setup);

// Sentences about what the job, whose keys were those of `old_job`, does not have any more when it
// goes on with those of `setup`, and about images that an epoch in progress draws twice. Empty if
// neither the number of workers nor the servers have changed.
std::vector<std::string> WhatIsDropped(const pb::Job& old_job, const Setup& setup);

}  // namespace tern::setup
