// Logs go through glog: LOG(INFO) << ..., and CHECK for our own bugs only, never for input from
// users, files or peers: a failed CHECK prints its stack and ends the process with exit code 70.
// Every line is written out at once, so a killed process loses none.
#pragma once

#include <glog/logging.h>

#include <string>

#include "common/base/status.h"

namespace tern {

// Call once, early in main, before other threads log. Lines go to
// LOG_DIR/PROGRAM.ROLE_AND_RANK.HOST.log ("tern_worker.worker.1.node7.log"), which is appended to;
// warnings and errors go to stderr as well. If another process holds that file (a second process of
// the rank), this one adds its pid to the file name. Creates the directory if needed; an empty
// `log_dir` means no file. kUsage: the directory cannot be written.
Status InitLogging(const std::string& program, const std::string& role_and_rank,
                   const std::string& log_dir);

// The path of the log file; empty without one.
std::string LogFile();

}  // namespace tern
