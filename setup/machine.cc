#include "setup/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "common/base/cpus.h"
#include "common/base/hash.h"
#include "common/base/host_name.h"

namespace tern::setup {

namespace {

// The kernel draws it at random when it starts, so containers on one machine have the same.
std::string BootId() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  return boot_id.empty() ? HostName() : boot_id;
}

}  // namespace

void SetMachineFigures(const pb::Job& job, pb::Counters* counters) {
  const bool computes_on_cpus =
      job.train().compute() != pb::Train::wait && job.workers().device() == pb::Workers::cpu;
  counters->set_compute_threads(computes_on_cpus ? job.workers().threads() : 0);
  const Result<std::vector<uint32_t>> cpus = CpusOfThisThread();
  counters->set_cpus(cpus.ok() ? static_cast<uint32_t>(cpus->size()) : 0);
  counters->set_machine(Digest(BootId()));
  counters->set_machine_cpus(static_cast<uint32_t>(std::max(0L, sysconf(_SC_NPROCESSORS_ONLN))));
}

}  // namespace tern::setup
