// Logs go through glog: LOG(INFO) << ..., and CHECK for bugs of the program only, never for input
// from users, files or peers: a failed CHECK prints its stack and ends the process with exit code
// 70. Every line is written out at once, so a killed process loses none.
#pragma once

#include <glog/logging.h>

#include <chrono>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tern {

// Names and values, in the order in which a log line has them.
using LogNumbers = std::vector<std::pair<std::string, double>>;

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
// warnings and errors go to stderr as well. If another process holds that file (a second process of
// the same rank), the name of this process's file contains its pid. kCannotWrite: the directory
// cannot be written.
Status InitLogging(const LogOptions& options);

// Returns the path of the log file; empty if there is none.
std::string LogFile();

// Whether a line of level INFO goes to stderr as well.
enum class Print { kNo, kYes };

// Logs a line of level INFO that has `numbers` beside its text. With Print::kYes the text is also
// printed to stderr, unless stderr takes no output now: for normal events that users want to see.
void LogInfo(const std::string& message, Print print, const LogNumbers& numbers = {},
             std::source_location location = std::source_location::current());

}  // namespace tern
