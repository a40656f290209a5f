// The flag --fail of `tern run`: failpoints (common/base/failpoint_flag.h) for single processes of
// the job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

// Reads values ROLE.RANK:FAILPOINT, such as "worker.1:thread.compute=die@step:20". Returns the
// arguments "--fail FAILPOINT" of each process that has some, by its name in messages ("worker 1").
// kUsage if a value is not of this form, or names a process or failpoint that there is not.
Result<std::map<std::string, std::vector<std::string>>> ReadMemberFailpoints(
    const std::vector<std::string>& values, uint32_t num_servers, uint32_t num_workers);

}  // namespace tern::tools
