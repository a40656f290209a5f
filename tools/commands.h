// The subcommands of `tern`, one file each; the table is in main.cc.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

// The words after the subcommand's name. The status is what `tern` ends with: its sentence goes to
// stderr.
using Words = std::vector<std::string>;

// Starts a job's servers and workers on this machine and sees them to the end (run.cc).
Status RunJob(const Words& words);
// Checks a job and says what it resolves to (check.cc).
Status CheckJob(const Words& words);
// Says what a network is made of (model.cc).
Status ShowModel(const Words& words);
// Says how fast a job will be elsewhere, from a profile of one step (predict.cc).
Status PredictJob(const Words& words);
// Files of others into Tern's, and back (convert.cc).
Status Convert(const Words& words);

}  // namespace tern::tools
