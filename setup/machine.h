// What advice on a job's speed has to know of a worker's machine.
#pragma once

#include "proto/counters.pb.h"
#include "proto/job.pb.h"

namespace tern::setup {

// Sets compute_threads, cpus, machine and machine_cpus. `job`: with the overrides of this worker's
// rank. Call on the thread that computes.
void SetMachineFigures(const pb::Job& job, pb::Counters* counters);

}  // namespace tern::setup
