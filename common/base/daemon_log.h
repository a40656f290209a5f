// Where a daemon's log goes: through glog, to a file and to stderr. Every line is written out at
// once, so a killed process loses none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/log_sink.h"
#include "common/base/status.h"

namespace tern {

// One line of the log.
struct LogLine {
  std::chrono::system_clock::time_point time;
  std::string level;  // INFO, WARNING, ERROR or FATAL
  std::string file;   // without its folder
  int line = 0;
  std::string message;  // any bytes
  LogNumbers numbers;
};

struct LogOptions {
  std::string program;  // "tern_worker"
  std::string role;     // "worker"
  uint32_t rank = 0;
  // The folder of the log file. Created if needed. Empty: no file.
  std::string log_dir{};
  // Returns a line as it stands in the file, without a newline; thread-safe. Null: the lines of
  // glog, which do not have the numbers. What is printed to stderr is always text.
  std::string (*format)(const LogLine& line, const std::string& role, uint32_t rank) = nullptr;
};

// Call once, early in main, before other threads log. Lines go to
// LOG_DIR/PROGRAM.ROLE.RANK.HOST.log ("tern_worker.worker.1.node7.log"), which is appended to;
// warnings and errors go to stderr as well, after that (terminal_line.h: a stderr that takes no
// output holds nobody up). If another process holds that file (a second process of
// the same rank), the name of this process's file contains its pid. A line of level FATAL (CHECK)
// prints the stack and ends the process with exit code 70. kCannotWrite: the directory cannot be
// written.
Status InitLogging(const LogOptions& options);
bool LoggingIsInitialized();

}  // namespace tern
