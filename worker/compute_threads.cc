#include "worker/compute_threads.h"

#include <omp.h>

#include "common/base/cpus.h"
#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::worker {

Status SetComputeThreads(const pb::Job& job, uint32_t rank) {
  omp_set_num_threads(static_cast<int>(job.workers().threads()));
  if (!job.workers().has_cpus()) return Ok();
  const std::string& cpu_list = job.workers().cpus();
  const auto cpus = ParseCpus(cpu_list);
  CHECK(cpus.has_value()) << cpu_list;  // Cannot fail: the job's validation has parsed this text.
  TERN_RETURN_IF_ERROR(
      BindThreadToCpus(*cpus).Within(Cat("workers.cpus (\"", cpu_list, "\") of worker ", rank)));
  LOG(INFO) << "computes with " << job.workers().threads() << " threads on the CPUs "
            << CpusText(*cpus);
  return Ok();
}

}  // namespace tern::worker
