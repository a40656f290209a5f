// Command-line arguments that name a job.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "setup/arguments.h"
#include "setup/setup.h"

namespace tern::tools {

// The path of the job file that `argument` names: "-" stands for stdin.
std::string JobPath(const std::string& argument);

// Reads and checks the job that the first positional argument names, with the values of --set.
Result<std::unique_ptr<setup::Setup>> SetupOfJob(const setup::Arguments& arguments);

}  // namespace tern::tools
