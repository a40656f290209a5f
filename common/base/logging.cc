#include "common/base/logging.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "common/base/terminal_line.h"
#include "common/base/text.h"

namespace tern {
namespace {

std::atomic<LogSink> current_sink{nullptr};
std::atomic<int> verbosity{0};

void PrintToStderr(const LogRecord& record) {
  const char* slash = std::strrchr(record.file, '/');
  StderrLine().Print(Cat(std::string(1, LogLevelName(record.level)[0]), " ",
                         slash == nullptr ? record.file : slash + 1, ":", record.line, "] ",
                         record.message));
}

void Log(const LogRecord& record) {
  const LogSink sink = current_sink;
  (sink == nullptr ? &PrintToStderr : sink)(record);
  if (record.level == LogLevel::kFATAL) std::abort();
}

}  // namespace

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kINFO:
      return "INFO";
    case LogLevel::kWARNING:
      return "WARNING";
    case LogLevel::kERROR:
      return "ERROR";
    case LogLevel::kFATAL:
      break;
  }
  return "FATAL";
}

LogSink SetLogSink(LogSink sink) { return current_sink.exchange(sink); }

void SetVerbosity(int level) { verbosity = level; }
bool IsVerbose(int level) { return level <= verbosity.load(std::memory_order_relaxed); }

void LogInfo(const std::string& message, Print print, const LogNumbers& numbers,
             std::source_location location) {
  Log({LogLevel::kINFO, location.file_name(), static_cast<int>(location.line()), message, print,
       numbers});
}

logging_internal::Line::~Line() {
  static const LogNumbers no_numbers;
  const std::string message = stream_.str();
  Log({level_, file_, line_, message, Print::kNo, no_numbers});
}

}  // namespace tern
