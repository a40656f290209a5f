// The subcommands of `tern`, one file each. kCommands in main.cc lists them.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

// The arguments of a command line after the subcommand's name.
//
// Every function below runs one subcommand. `tern` prints the message of the returned status to
// stderr and exits with the status's code.
using Args = std::vector<std::string>;

// Starts a job's servers and workers on this machine and supervises them until they end
// (run/run.cc).
Status RunJob(const Args& args);
// Checks a job and prints it with all defaults (check.cc).
Status CheckJob(const Args& args);
// Prints the layers of a network (model.cc).
Status ShowModel(const Args& args);
// Forecasts a job's speed on other networks from a profile of one step (forecast/predict.cc).
Status PredictJob(const Args& args);
// Converts files between Tern's formats and others (convert/convert.cc).
Status ConvertFiles(const Args& args);

}  // namespace tern::tools
