#include "worker/machine.h"

#include <algorithm>

#include "common/algorithm/ranks.h"
#include "common/base/cpus.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "worker/device/device.h"

namespace tern::worker {

Status CheckDeviceOf(const pb::Job& job) {
  return job.workers().device() == pb::Workers::cuda ? device::CheckDevice() : Ok();
}

std::string WarningOfThreads(const pb::Job& job) {
  const auto cpus = CpusOfThisThread();
  const uint32_t num_threads = job.workers().threads();
  if (!cpus.ok() || num_threads <= cpus->size()) return "";
  return Cat("workers.threads is ", num_threads, ", but this machine gives ", cpus->size(),
             cpus->size() == 1 ? " CPU" : " CPUs",
             " to the process: threads that wait for a CPU make training slower; set it to ",
             cpus->size(), " or less");
}

std::vector<std::string> WarningsOfThreads(const pb::Job& job) {
  std::vector<std::string> warnings;
  for (uint32_t rank = 0; rank < algorithm::NumRanks(job); ++rank) {
    const std::string warning = WarningOfThreads(config::JobForRank(job, rank));
    if (!warning.empty() && std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
      warnings.push_back(warning);
  }
  return warnings;
}

}  // namespace tern::worker
