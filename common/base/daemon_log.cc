#include "common/base/daemon_log.h"

#include <execinfo.h>
#include <fcntl.h>
#include <glog/logging.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/host_name.h"
#include "common/base/mutex.h"
#include "common/base/output_file.h"
#include "common/base/storage.h"
#include "common/base/terminal_line.h"
#include "common/base/text.h"

namespace tern {
namespace {

Mutex logging_mutex;
bool is_initialized TERN_GUARDED_BY(logging_mutex) = false;

// How long a process that ends by a FATAL line may take to print its stack: stderr may take none.
constexpr unsigned kStackSeconds = 2;

void ExitWithoutStackTrace(int) { _exit(static_cast<int>(Code::kInternal)); }

[[noreturn]] void ExitWithStackTrace() {
  std::array<void*, 64> stack;
  backtrace_symbols_fd(stack.data(), backtrace(stack.data(), stack.size()), STDERR_FILENO);
  _exit(static_cast<int>(Code::kInternal));
}

// The line that this thread is logging.
thread_local const LogRecord* current_record = nullptr;

google::LogSeverity SeverityOf(LogLevel level) {
  switch (level) {
    case LogLevel::kINFO:
      return google::GLOG_INFO;
    case LogLevel::kWARNING:
      return google::GLOG_WARNING;
    case LogLevel::kERROR:
      return google::GLOG_ERROR;
    case LogLevel::kFATAL:
      break;
  }
  return google::GLOG_FATAL;
}

void LogThroughGlog(const LogRecord& record) {
  current_record = &record;
  google::LogMessage(record.file, record.line, SeverityOf(record.level)).stream() << record.message;
  current_record = nullptr;
}

// Writes all lines to the log file, and then warnings, errors and what LogInfo prints to stderr.
// Glog itself would follow a symbolic link in place of the file, and would print into the line that
// is redrawn in place on stderr. glog calls send() for one line at a time.
class LineWriter : public google::LogSink {
 public:
  // `fd`: the open log file, or -1. It stays open until the process ends.
  LineWriter(LogOptions options, int fd) : options_(std::move(options)), fd_(fd) {}

  void send(google::LogSeverity severity, const char*, const char* file, int line,
            const google::LogMessageTime& time, const char* message, size_t size) override {
    const std::string text = ToString(severity, file, line, time, message, size) + "\n";
    WriteToFile(FileLine(severity, file, line, time, {message, size}, text));
    if (severity == google::GLOG_FATAL) {  // glog prints more, and waits for stderr.
      signal(SIGALRM, &ExitWithoutStackTrace);
      alarm(kStackSeconds);
    }
    if (severity >= google::GLOG_WARNING ||
        (current_record != nullptr && current_record->print == Print::kYes))
      StderrLine().Print(text);
  }

 private:
  // The line as it stands in the file; `text`: as glog writes it.
  std::string FileLine(google::LogSeverity severity, const char* file, int line,
                       const google::LogMessageTime& time, std::string message,
                       const std::string& text) const {
    if (options_.format == nullptr) return text;
    LogLine log_line{std::chrono::system_clock::from_time_t(time.timestamp()) +
                         std::chrono::microseconds(time.usec()),
                     google::GetLogSeverityName(severity),
                     file,
                     line,
                     std::move(message),
                     current_record == nullptr ? LogNumbers() : current_record->numbers};
    return options_.format(log_line, options_.role, options_.rank) + "\n";
  }

  // What cannot be written of a line, because the disk is full for example, is lost, and the next
  // one begins on a line of its own.
  void WriteToFile(std::string text) {
    if (is_in_line_) text.insert(0, "\n");
    for (size_t num_written = 0; fd_ >= 0 && num_written < text.size();) {
      const ssize_t n = write(fd_, text.data() + num_written, text.size() - num_written);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      num_written += static_cast<size_t>(n);
      is_in_line_ = text[num_written - 1] != '\n';
    }
  }

  const LogOptions options_;
  const int fd_;
  bool is_in_line_ = false;  // The file ends with a part of a line.
};

// Opens the file `path` and locks it until the process ends; its descriptor, or -1 if another
// process, a second one of the same rank for example, has locked it.
Result<int> TryOpenLog(const std::string& path) {
  const Result<int> fd = OpenForAppending(path);
  if (!fd.ok()) {
    return Status(Code::kCannotWrite, Cat("the log: ", fd.status().message(),
                                          "; give a directory that this user may write to"));
  }
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool is_locked_by_other =
      fcntl(*fd, F_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES);
  if (!is_locked_by_other) return *fd;
  close(*fd);
  return -1;
}

Result<int> OpenLogIn(const std::string& log_dir, const std::string& stem) {
  const std::string path = (std::filesystem::path(log_dir) / stem).string();
  if (const std::error_code error = Disk().CreateFolders(log_dir)) {
    return Status(Code::kCannotWrite, Cat("cannot write the log ", path, ".log: ", error.message(),
                                          "; give a directory that this user may write to"));
  }
  Result<int> fd = TryOpenLog(path + ".log");
  if (fd.ok() && *fd < 0) fd = TryOpenLog(Cat(path, ".", getpid(), ".log"));
  return fd;
}

}  // namespace

Status InitLogging(const LogOptions& options) {
  const MutexLock lock(logging_mutex);
  if (is_initialized) return Status(Code::kInternal, "logging was set up twice in one process");
  const std::string role_and_rank = Cat(options.role, ".", options.rank);
  int fd = -1;
  if (!options.log_dir.empty()) {
    const Result<int> log_fd =
        OpenLogIn(options.log_dir, Cat(options.program, ".", role_and_rank, ".", HostName()));
    if (!log_fd.ok()) return log_fd.status();
    fd = *log_fd;
  }
  // Static, because glog keeps the pointer.
  static const std::string kept_program_name = options.program;
  google::InitGoogleLogging(kept_program_name.c_str());
  google::InstallFailureFunction(
      reinterpret_cast<google::logging_fail_func_t>(&ExitWithStackTrace));
  FLAGS_stderrthreshold = google::NUM_SEVERITIES;  // glog prints nothing itself.
  for (const int severity :
       {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
    google::SetLogDestination(severity, "");  // glog opens no file.
    google::SetLogSymlink(severity, "");
  }
  google::AddLogSink(new LineWriter(options, fd));  // Never removed.
  SetLogSink(&LogThroughGlog);
  SetVerbosity(FLAGS_v);
  is_initialized = true;
  LogInfo(Cat(options.program, " ", role_and_rank, " starts as process ", getpid()), Print::kNo);
  return Ok();
}

bool LoggingIsInitialized() {
  const MutexLock lock(logging_mutex);
  return is_initialized;
}

}  // namespace tern
