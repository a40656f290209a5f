// Finds free ports for jobs that share a machine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::tools {

// Finds a free port for every server of `job` with a loopback address. Returns overrides of the job
// ("servers.0.address=127.0.0.1:23456") that set these ports, and that let the system choose the
// servers' data ports. The function tests a port by binding it. It tries only ports below the range
// from which the system chooses ports, so that no other program gets one by chance before the
// server binds it. Returns kAddress if no port is free.
Result<std::vector<std::string>> FreePortOverrides(const pb::Job& job);

}  // namespace tern::tools
