// Logs go through glog: LOG(INFO) << ..., and CHECK for bugs of the program only, never for input
// from users, files or peers: a failed CHECK prints its stack and ends the process with exit code
// 70. Every line is written out at once, so a killed process loses none.
#pragma once

#include <glog/logging.h>

#include <string>

#include "common/base/status.h"

namespace tern {

// Call once, early in main, before other threads log. Lines go to
// LOG_DIR/PROGRAM.ROLE_AND_RANK.HOST.log ("tern_worker.worker.1.node7.log"), which is appended to;
// warnings and errors go to stderr as well. If another process holds that file (a second process of
// the same rank), the name of this process's file contains its pid. Creates the directory if
// needed. An empty `log_dir` means no file. kCannotWrite: the directory cannot be written.
Status InitLogging(const std::string& program, const std::string& role_and_rank,
                   const std::string& log_dir);

// Returns the path of the log file; empty if there is none.
std::string LogFile();

}  // namespace tern
