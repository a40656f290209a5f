// The subcommands of `tern`. kCommands in main.cc lists them.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

// The arguments of a command line after the subcommand's name.
using Args = std::vector<std::string>;

// Every function below runs one subcommand. `tern` exits with the exit code of the returned status.
// If the status is an error, `tern` first prints the status's message to stderr.

// Starts a job's servers and workers on this machine and supervises them until they end
// (run/run.cc).
Status RunJob(const Args& args);
// Checks a job and prints it with all defaults (check.cc).
Status CheckJob(const Args& args);
// Prints the layers of a network, or its NetDef (model.cc).
Status ShowModel(const Args& args);
// Forecasts a job's speed with other links, workers, codecs and algorithms (forecast/predict.cc).
Status PredictJob(const Args& args);
// Makes the keys of a job (keys.cc).
Status ManageKeys(const Args& args);
// Shows a running job in the terminal (top/top.cc).
Status ShowTop(const Args& args);
// Prints the status of a running job once (top/status.cc).
Status ShowStatus(const Args& args);
// Converts files between Tern's formats and others (convert/convert.cc).
Status ConvertFiles(const Args& args);

}  // namespace tern::tools
