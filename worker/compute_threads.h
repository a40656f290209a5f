// The threads that compute: the one that trains, and OpenMP's team that it starts.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::worker {

// So many as workers.threads says, on the CPUs of workers.cpus only, where the job gives some; all
// other threads stay free. `job` as this rank sees it. On the thread that will train, before the
// first parallel region. kBadJob where this machine lets this process have no such CPU.
Status SetComputeThreads(const pb::Job& job, uint32_t rank);

}  // namespace tern::worker
