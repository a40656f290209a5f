// Ports for jobs that share a machine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::tools {

// Overrides that move every server with a loopback address to a port on which nobody listens now,
// and let the system choose its data ports: "servers.0.address=127.0.0.1:23456". The ports were
// found by binding them. They are below the range that the system assigns by itself, so only
// another search like this one could take them before the servers do. kAddress if there are none.
Result<std::vector<std::string>> FreePortOverrides(const pb::Job& job);

}  // namespace tern::tools
