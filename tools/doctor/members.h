// Which daemons of a job run on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::tools {

struct Members {
  std::vector<uint32_t> servers, workers;  // their ranks, ascending
  bool are_workers_known = true;           // false: `workers` is an example
};

// The servers are those whose address has a host of this machine. `ranks`: the workers, as
// "0-3,8"; empty: all workers if all servers are here, else worker 0 as an example. Resolves
// names. kUsage if `ranks` is not a list of the job's ranks.
Result<Members> FindMembers(const pb::Job& job, const std::string& ranks);

// All servers and workers of the job.
Members AllMembers(const pb::Job& job);

// Whether `host` has an address of this machine. False if it does not resolve.
bool IsOfThisMachine(const std::string& host);

// "server 0, workers 0-3"
std::string MembersText(const Members& members);

}  // namespace tern::tools
