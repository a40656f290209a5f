// Logs go through glog: LOG(INFO) << ..., and CHECK for our own bugs only, never for what users,
// files or peers say: a failed CHECK prints its stack and ends the process with exit code 70. Every
// line is written out at once, so a killed process loses none.
#pragma once

#include <glog/logging.h>

#include <string>

#include "common/base/status.h"

namespace tern {

// Call once, early in main, before other threads log. Lines go to
// LOG_DIR/PROGRAM.ROLE_AND_RANK.HOST.log ("tern_worker.worker.1.node7.log"), appended to where it
// exists; warnings and errors go to stderr as well. Where another live process holds that file (a
// second process of the rank), this one's own has its pid in the name. The directory is made if
// need be; an empty `log_dir` means no file. kUsage: the directory cannot be written.
Status InitLogging(const std::string& program, const std::string& role_and_rank,
                   const std::string& log_dir);

// Where the lines go; empty without a file.
std::string LogFile();

}  // namespace tern
