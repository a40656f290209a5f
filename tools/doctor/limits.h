// The limits that the system sets to the processes of this machine, and whether a job's daemons
// need more.
#pragma once

#include <cstdint>

#include "common/base/machine_limits.h"
#include "setup/setup.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/members.h"

namespace tern::tools {

// `limit`: files that one process may have open. `needed`: about as many as the daemon with the
// most has.
Finding JudgeOpenFiles(uint64_t limit, uint64_t needed);
// `available_bytes`: what processes may still use. `needed_bytes`: an upper bound for the daemons
// here, without images and the programs themselves.
Finding JudgeMemory(uint64_t available_bytes, bool is_of_group, uint64_t needed_bytes);

// All findings about limits of files and memory.
Findings CheckLimits(const setup::Setup& setup, const Members& members, const GroupLimits& group);

}  // namespace tern::tools
