#include "common/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "common/base/text.h"

namespace tern {
namespace {

constexpr mode_t kNewFileMode = 0640;
constexpr int kOpenFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;

Status CannotWriteError(const std::string& path, const std::string& reason) {
  return Status(Code::kCannotWrite, Cat("cannot write ", path, ": ", reason));
}

// The type of what has that name, without following a symbolic link: S_IFREG, S_IFLNK and so on; 0
// if there is nothing.
mode_t TypeOf(const std::string& path) {
  struct stat file_info = {};
  return lstat(path.c_str(), &file_info) == 0 ? file_info.st_mode & S_IFMT : 0;
}

bool IsLink(const std::string& path) { return TypeOf(path) == S_IFLNK; }

Status LinkError(const std::string& path) {
  return CannotWriteError(path,
                          "it is a symbolic link, which could lead to files of others; "
                          "remove it, or give another output_dir");
}

}  // namespace

Result<int> OpenForAppending(const std::string& path) {
  // With O_NONBLOCK, opening a pipe does not wait for a reader.
  const int fd = open(path.c_str(), kOpenFlags | O_NONBLOCK, kNewFileMode);
  if (fd < 0 && errno == ELOOP && IsLink(path)) return LinkError(path);
  if (fd < 0) return CannotWriteError(path, std::strerror(errno));
  struct stat file_info = {};
  if (fstat(fd, &file_info) == 0 && (S_ISREG(file_info.st_mode) || S_ISCHR(file_info.st_mode)) &&
      fcntl(fd, F_SETFL, kOpenFlags) == 0)  // without O_NONBLOCK
    return fd;
  close(fd);
  return CannotWriteError(path, "it is not a regular file; remove it");
}

Result<int> CreateAnew(const std::string& path) {
  int fd = open(path.c_str(), kOpenFlags | O_EXCL, kNewFileMode);
  if (fd < 0 && errno == EEXIST) {
    const mode_t type = TypeOf(path);
    if (type == S_IFCHR || type == S_IFIFO) return OpenForAppending(path);
    if (unlink(path.c_str()) == 0) fd = open(path.c_str(), kOpenFlags | O_EXCL, kNewFileMode);
  }
  if (fd < 0) return CannotWriteError(path, std::strerror(errno));
  return fd;
}

Status CheckIsNoLink(const std::string& folder) {
  return IsLink(folder) ? LinkError(folder) : Ok();
}

Status CheckOutputFolder(const std::string& output_dir) {
  for (const char* name : {"logs", "checkpoints", "events"}) {
    const std::string folder = Cat(output_dir, "/", name);
    TERN_RETURN_IF_ERROR(CheckIsNoLink(folder));
    if (folder.ends_with("logs")) continue;
    std::error_code ignored_error;  // Who uses the folder reports that it cannot be read.
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored_error))
      TERN_RETURN_IF_ERROR(CheckIsNoLink(entry.path()));
  }
  return Ok();
}

std::string WarningOfOpenFolder(const std::string& folder) {
  struct stat folder_info = {};
  if (stat(folder.c_str(), &folder_info) != 0) return "";
  if (folder_info.st_uid != geteuid() && folder_info.st_uid != 0) {
    return Cat("the folder ", folder, " belongs to another user (with the number ",
               folder_info.st_uid, ", not ", geteuid(),
               "), who may change the checkpoints and results of this job; name a folder of your "
               "own in output_dir");
  }
  const mode_t mode = folder_info.st_mode & 07777;
  if ((mode & 0022) == 0) return "";
  char mode_text[8];
  std::snprintf(mode_text, sizeof mode_text, "%04o", static_cast<unsigned>(mode));
  return Cat("other users may write to the folder ", folder, " (mode ", mode_text,
             "), and so change the checkpoints and results of this job; chmod go-w ", folder);
}

}  // namespace tern
