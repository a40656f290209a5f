// Whether the ports of a job's daemons on this machine are free.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/members.h"

namespace tern::tools {

// The process that listens at this TCP port of this machine: "tern_server (process 123)". Empty if
// there is none, or this user may not see whose it is.
std::string HolderOfPort(uint16_t port);

// Binds host:port for a moment, as a daemon does. `host`: as in a job, "*" and "0.0.0.0" are all
// addresses of the machine.
Finding CheckPort(const std::string& subject, const std::string& host, uint16_t port);

// A finding for each port that the job names for a daemon here: whether it is free, and no other
// daemon here has it, too. Daemons whose data ports the system chooses need no check.
Findings CheckPorts(const pb::Job& job, const Members& members);
// kBadJob if two daemons here have one port: metrics.port gives a range of them, so a valid job may
// name a port twice. Binds ports for a moment.
Status CheckPortsDiffer(const pb::Job& job, const Members& members);

}  // namespace tern::tools
