#include "common/base/logging.h"

#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "common/base/host_name.h"
#include "common/base/mutex.h"
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

// kFailed means that the file cannot be opened; errno has the reason.
enum class LogFileState { kFree, kLocked, kFailed };

// Says whether this process can use `path` as its log. glog locks its file, so a second process of
// the same rank needs a file of its own.
LogFileState StateOfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0664);
  if (fd < 0) return LogFileState::kFailed;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool is_locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return is_locked ? LogFileState::kLocked : LogFileState::kFree;
}

Result<std::string> ChooseLogFile(const std::string& stem, const std::string& log_dir) {
  const auto cannot_write = [](const std::string& path, const std::string& reason) {
    return Status(Code::kCannotWrite, Cat("cannot write the log ", path, ": ", reason,
                                          "; give a directory that this user may write to"));
  };
  std::string path = (std::filesystem::path(log_dir) / stem).string() + ".log";
  std::error_code error;
  std::filesystem::create_directories(log_dir, error);
  if (error) return cannot_write(path, error.message());
  LogFileState state = StateOfFile(path);
  if (state == LogFileState::kLocked) {
    path =
        (std::filesystem::path(log_dir) / stem).string() + "." + std::to_string(getpid()) + ".log";
    state = StateOfFile(path);
  }
  if (state == LogFileState::kFailed) return cannot_write(path, std::strerror(errno));
  return path;
}

}  // namespace

Status InitLogging(const std::string& program, const std::string& role_and_rank,
                   const std::string& log_dir) {
  const MutexLock lock(logging_mutex);
  if (is_initialized) return Status(Code::kInternal, "logging was set up twice in one process");
  std::string path_of_file;
  if (!log_dir.empty()) {
    const auto chosen_path =
        ChooseLogFile(program + "." + role_and_rank + "." + HostName(), log_dir);
    if (!chosen_path.ok()) return chosen_path.status();
    path_of_file = *chosen_path;
  }
  static const std::string kept_program_name = program;  // Static, because glog keeps the pointer.
  google::InitGoogleLogging(kept_program_name.c_str());
  google::InstallFailureFunction(
      reinterpret_cast<google::logging_fail_func_t>(&ExitWithStackTrace));
  FLAGS_timestamp_in_logfile_name = false;
  FLAGS_logbufsecs = 0;
  FLAGS_logbuflevel = -1;
  FLAGS_stderrthreshold = google::GLOG_WARNING;
  // Only glog's file for INFO is written, because it has the messages of all severities.
  for (const int severity :
       {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
    google::SetLogDestination(severity, severity == google::GLOG_INFO ? path_of_file.c_str() : "");
    google::SetLogSymlink(severity, "");
  }
  is_initialized = true;
  log_file = path_of_file;
  // The first message opens and locks the file.
  LOG(INFO) << program << " " << role_and_rank << " starts as process " << getpid();
  return Ok();
}

std::string LogFile() {
  const MutexLock lock(logging_mutex);
  return log_file;
}

}  // namespace tern
