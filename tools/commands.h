// The subcommands of `tern`, one file each; the table is in main.cc.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

// The words after the subcommand's name. `tern` ends with the returned status and prints its
// sentence to stderr.
using Words = std::vector<std::string>;

// Starts a job's servers and workers on this machine and supervises them to the end (run.cc).
Status RunJob(const Words& words);
// Checks a job and prints what it resolves to (check.cc).
Status CheckJob(const Words& words);
// Prints the layers of a network (model.cc).
Status ShowModel(const Words& words);
// Forecasts a job's speed elsewhere from a profile of one step (predict.cc).
Status PredictJob(const Words& words);
// Converts files of other programs into Tern's, and back (convert.cc).
Status Convert(const Words& words);

}  // namespace tern::tools
