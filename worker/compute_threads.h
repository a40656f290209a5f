// The compute threads: the thread that trains, and the OpenMP team that it starts.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::worker {

// Sets the number of threads to workers.threads, and binds them to workers.cpus if the job has
// that; other threads are not bound. `job` as this rank sees it. Call on the thread that will
// train, before its first parallel region. kBadJob if this process may not run on one of the CPUs.
Status SetComputeThreads(const pb::Job& job, uint32_t rank);

}  // namespace tern::worker
