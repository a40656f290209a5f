// Settings of the compute threads: the thread that trains, and the OpenMP threads that it starts.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::worker {

// Sets the number of OpenMP threads to the job's workers.threads. If the job sets workers.cpus,
// binds the calling thread and the OpenMP threads that it will start to those CPUs; other threads
// of the process are not bound. `job`: the job with this rank's overrides (config::JobForRank).
// Must be called on the thread that will train, before its first parallel region. Returns kBadJob
// if this process may not run on one of the CPUs.
Status SetComputeThreads(const pb::Job& job, uint32_t rank);

}  // namespace tern::worker
