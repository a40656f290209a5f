// What the command line and the environment of `tern launch` say, for one machine and for several.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "setup/arguments.h"
#include "tools/launch/launched_job.h"
#include "tools/run/local_job.h"

namespace tern::tools {

struct LaunchOptions {
  LaunchedJobOptions job;
  uint32_t max_restarts = 0;
  std::string program;                 // Of the user's, as it was given; "": none.
  std::vector<std::string> arguments;  // Of the program.
};

// kUsage if a value is wrong.
Result<LaunchOptions> ReadLaunchOptions(const setup::Arguments& arguments);

// Writes the job where the servers and the programs read it, and sets the file and the setup of
// *local.
Status WriteJob(const pb::Job& job, LocalJob* local);

}  // namespace tern::tools
