// Whose status `tern top` and `tern status` show.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/arguments.h"

namespace tern::tools {

struct Target {
  std::string url;  // of status.json
  bool as_json = false;
};

// Reads JOB|URL (or HOST:PORT), --set of a job, and --json if the command has it. kUsage, or the
// job's fault: also if its key metrics.port is 0, because then nobody serves its status.
Result<Target> ReadTarget(const setup::Arguments& arguments);

}  // namespace tern::tools
