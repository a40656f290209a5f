// Whether a job's daemons on this machine can read their keys.
#pragma once

#include "proto/job.pb.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/members.h"

namespace tern::tools {

// Reads the key files of the daemons here, as each of them does when it starts. None for a job
// without keys. After this call the process writes no core dumps.
Findings CheckKeys(const pb::Job& job, const Members& members);

}  // namespace tern::tools
