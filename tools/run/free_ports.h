// Finds free ports for jobs that share a machine.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::tools {

// Finds a port of `host`, a numeric address of this machine, that is free, and of which the
// remainder by `num_searchers` is `searcher`: so several that search at the same time find
// different ones. Not one of `taken`, to which it is added. Only below the range from which the
// system chooses ports, so that no other program gets it by chance before somebody binds it.
// kAddress if none is free.
Result<uint16_t> FindFreePort(const std::string& host, uint32_t searcher, uint32_t num_searchers,
                              std::set<uint16_t>* taken);

// Finds a free port for every server of `job` with a loopback address. Returns overrides of the job
// ("servers.0.address=127.0.0.1:23456") that set these ports, and that let the system choose the
// servers' data ports; if a daemon's metrics port is taken or is a server's, metrics.port, too.
// kAddress if no port is free.
Result<std::vector<std::string>> FreePortOverrides(const pb::Job& job);

}  // namespace tern::tools
