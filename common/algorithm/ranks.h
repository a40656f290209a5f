// The ranks of a job's workers, and what each brings to a step. A job with workers.max has more
// ranks than workers.count: late joiners take them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/job.pb.h"

namespace tern::algorithm {

// How many workers the job may have at once; their ranks are 0 to this - 1.
inline uint32_t NumRanks(const pb::Job& job) {
  return std::max(job.workers().count(), job.workers().max());
}

// A worker's part of `batch_total` samples, which are those of workers.count workers.
inline uint32_t BatchOfWorker(const pb::Job& job, uint32_t batch_total) {
  return batch_total / std::max(1u, job.workers().count());
}
inline uint32_t BatchOfWorker(const pb::Job& job) {
  return BatchOfWorker(job, job.train().batch_total());
}

}  // namespace tern::algorithm
