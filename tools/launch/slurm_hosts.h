// The hosts of `tern launch --slurm`: the nodes of the allocation in which it runs.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "tools/launch/host_list.h"

namespace tern::tools {

// Asks Slurm's scontrol. kUsage outside an allocation; kAddress if scontrol is missing or fails.
Result<std::vector<Host>> HostsOfAllocation();

// `names`: one node a line, as `scontrol show hostnames` writes them. `tasks_per_node`: as in
// SLURM_TASKS_PER_NODE, "2(x3),1": two tasks on each of the first three nodes, one on the next.
// kUsage if the two do not agree.
Result<std::vector<Host>> ParseSlurmHosts(const std::string& names,
                                          const std::string& tasks_per_node);

}  // namespace tern::tools
