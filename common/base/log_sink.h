// Who receives the lines of the log (logging.h). Where they go is the program's affair: a daemon's
// go to its log file (daemon_log.h), those of a library in a foreign process to that process
// (client/tern.h), all others to stderr. Thread-safe.
#pragma once

#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

enum class LogLevel { kINFO, kWARNING, kERROR, kFATAL };
const char* LogLevelName(LogLevel level);  // INFO, WARNING, ERROR or FATAL

// Names and values, in the order in which a log line has them.
using LogNumbers = std::vector<std::pair<std::string, double>>;

// Whether a line of level INFO goes to stderr as well.
enum class Print { kNo, kYes };

struct LogRecord {
  LogLevel level = LogLevel::kINFO;
  const char* file = "";  // with its folder
  int line = 0;
  std::string_view message;  // any bytes
  Print print = Print::kNo;
  const LogNumbers& numbers;
};

// Receives every line, on the thread that logs it. Thread-safe. If it returns from a line of level
// kFATAL, the process is aborted.
using LogSink = void (*)(const LogRecord& record);
// Sets the receiver of all later lines, and returns the one before. With null, as at first, lines
// are printed to stderr.
LogSink SetLogSink(LogSink sink);

// The highest level of VLOG that is logged; 0 at first.
void SetVerbosity(int level);
bool IsVerbose(int level);

// Logs a line of level INFO that has `numbers` beside its text. With Print::kYes a daemon also
// prints the text to stderr, unless stderr takes no output now: for normal events that users want
// to see.
void LogInfo(const std::string& message, Print print, const LogNumbers& numbers = {},
             std::source_location location = std::source_location::current());

}  // namespace tern
