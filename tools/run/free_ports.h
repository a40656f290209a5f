// Finds free ports for jobs that share a machine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::tools {

// Returns overrides that move every server with a loopback address to a port that is free now,
// "servers.0.address=127.0.0.1:23456", and let the system choose its data ports. Finds the ports by
// binding them. They are below the range of ports that the system assigns, so only another search
// like this one can take them before the servers do. kAddress if no port is free.
Result<std::vector<std::string>> FreePortOverrides(const pb::Job& job);

}  // namespace tern::tools
