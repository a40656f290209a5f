#include "common/base/logging.h"

#include <execinfo.h>
#include <fcntl.h>
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
#include "common/base/text.h"

namespace tern {
namespace {

Mutex logging_mutex;
bool is_initialized TERN_GUARDED_BY(logging_mutex) = false;
std::string log_file TERN_GUARDED_BY(logging_mutex);

[[noreturn]] void ExitWithStackTrace() {
  google::FlushLogFilesUnsafe(google::GLOG_INFO);
  std::array<void*, 64> stack;
  backtrace_symbols_fd(stack.data(), backtrace(stack.data(), stack.size()), STDERR_FILENO);
  _exit(static_cast<int>(Code::kInternal));
}

// Writes the lines of glog to a file that this process has opened itself, because glog would follow
// a symbolic link in place of the file.
class LogFileWriter : public google::base::Logger {
 public:
  explicit LogFileWriter(int fd) : fd_(fd) {}
  // A line that cannot be written, because the disk is full for example, is lost.
  void Write(bool, time_t, const char* line, size_t size) override {
    while (size > 0) {
      const ssize_t n = write(fd_, line, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      line += n;
      size -= static_cast<size_t>(n);
    }
  }
  void Flush() override {}
  google::uint32 LogSize() override { return 0; }

 private:
  const int fd_;  // Stays open until the process ends.
};

struct OpenLog {
  std::string path;
  int fd = -1;
};

// Opens the file `path` and locks it until the process ends. If another process has locked it, a
// second process of the same rank for example, sets fd to -1.
Result<OpenLog> TryOpenLog(const std::string& path) {
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
  if (!is_locked_by_other) return OpenLog{path, *fd};
  close(*fd);
  return OpenLog{path, -1};
}

Result<OpenLog> OpenLogIn(const std::string& log_dir, const std::string& stem) {
  const std::string path = (std::filesystem::path(log_dir) / stem).string();
  if (const std::error_code error = Disk().CreateFolders(log_dir)) {
    return Status(Code::kCannotWrite, Cat("cannot write the log ", path, ".log: ", error.message(),
                                          "; give a directory that this user may write to"));
  }
  Result<OpenLog> log = TryOpenLog(path + ".log");
  if (log.ok() && log->fd < 0) log = TryOpenLog(Cat(path, ".", getpid(), ".log"));
  return log;
}

}  // namespace

Status InitLogging(const std::string& program, const std::string& role_and_rank,
                   const std::string& log_dir) {
  const MutexLock lock(logging_mutex);
  if (is_initialized) return Status(Code::kInternal, "logging was set up twice in one process");
  OpenLog log;
  if (!log_dir.empty()) {
    Result<OpenLog> opened_log =
        OpenLogIn(log_dir, Cat(program, ".", role_and_rank, ".", HostName()));
    if (!opened_log.ok()) return opened_log.status();
    log = std::move(*opened_log);
  }
  static const std::string kept_program_name = program;  // Static, because glog keeps the pointer.
  google::InitGoogleLogging(kept_program_name.c_str());
  google::InstallFailureFunction(
      reinterpret_cast<google::logging_fail_func_t>(&ExitWithStackTrace));
  FLAGS_stderrthreshold = google::GLOG_WARNING;
  for (const int severity :
       {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
    google::SetLogDestination(severity, "");  // glog opens no file.
    google::SetLogSymlink(severity, "");
  }
  // The logger for INFO receives the messages of all severities. It belongs to glog from now on.
  if (log.fd >= 0) google::base::SetLogger(google::GLOG_INFO, new LogFileWriter(log.fd));
  is_initialized = true;
  log_file = log.path;
  LOG(INFO) << program << " " << role_and_rank << " starts as process " << getpid();
  return Ok();
}

std::string LogFile() {
  const MutexLock lock(logging_mutex);
  return log_file;
}

}  // namespace tern
