#include "worker/machine.h"

#include <algorithm>

#include "common/algorithm/ranks.h"
#include "common/base/cpus.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "worker/device/device.h"
#include "worker/gpu_choice.h"
#include "worker/net_compute.h"

namespace tern::worker {

Status CheckDeviceOf(const pb::Job& job) {
  if (job.workers().device() != pb::Workers::cuda) {
    const bool has_net = job.train().compute() == pb::Train::net;
    return has_net ? engine::CheckPrecisionOnCpu(PrecisionOf(job.train())) : Ok();
  }
  if (job.workers().has_gpu()) {
    const auto gpu = ChooseGpu(GpusOf(setup::ProcessEnvironment()), job.workers().gpu(), 0);
    if (!gpu.ok()) return gpu.status();
  }
  return device::CheckDevice();
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
