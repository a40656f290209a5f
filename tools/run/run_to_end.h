// Runs `tern run` as a child, for commands that train a job more than once or in their own way.
#pragma once

#include <string>

#include "common/base/signals.h"
#include "common/base/status.h"
#include "tools/run/process.h"

namespace tern::tools {

// Runs the job of the file, which has all keys, until it ends, and returns how `tern run` ended.
// TERN_OUTPUT_DIR and the like do not count for it (setup/environment.h). Its output is in
// FOLDER/run.stdout and run.stderr. Passes a stop signal on to it; the caller asks `stop_signals`
// whether there was one. Call it on the main thread (Process).
Result<Exit> RunToEnd(const std::string& job_file, const std::string& folder,
                      StopSignals* stop_signals);

}  // namespace tern::tools
