// Whether a machine, and this program on it, can do what a job asks of a worker.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::worker {

// `job` is the job with a rank's overrides (config::JobForRank), except in WarningsOfThreads.

// kBadJob if the job's device is a GPU, and this program was built without CUDA or finds no
// suitable GPU, or none with the number workers.gpu; or if it is a CPU that has not
// train.precision.
Status CheckDeviceOf(const pb::Job& job);
// A sentence if the job's workers.threads are more than the CPUs that this thread may run on; else
// empty.
std::string WarningOfThreads(const pb::Job& job);
// The different sentences of WarningOfThreads for the workers of `job`, if all ran here.
std::vector<std::string> WarningsOfThreads(const pb::Job& job);

}  // namespace tern::worker
