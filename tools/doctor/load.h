// How busy other programs keep the CPUs of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/members.h"

namespace tern::tools {

struct CpuLoad {
  double busy_cpus = 0;  // how many of the CPUs were busy, on average
  // The process that used most time, "NAME (process ID)"; empty if none used a tenth of a CPU.
  std::string busiest;
};
// Looks at these CPUs for half a second, in which the calling thread sleeps. kCannotWrite if the
// kernel does not say how busy they are.
Result<CpuLoad> MeasureLoad(const std::vector<uint32_t>& cpus);

// `threads`: those that compute, of all workers here. `num_cpus`: those of the load.
Finding JudgeLoad(const CpuLoad& load, uint32_t num_cpus, uint32_t threads);

// Measures and judges the load of the CPUs on which this process may run. Empty if nothing here
// computes on CPUs.
Findings CheckLoad(const pb::Job& job, const Members& members);

}  // namespace tern::tools
