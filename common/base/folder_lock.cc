#include "common/base/folder_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <sstream>
#include <utility>

#include "common/base/host_name.h"
#include "common/base/storage.h"
#include "common/base/text.h"

namespace tern {
namespace {

std::string LocalTime() {
  const time_t now = time(nullptr);
  tm local{};
  std::array<char, 64> text{};
  if (localtime_r(&now, &local) == nullptr) return "unknown";
  return {text.data(), strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &local)};
}

// Describes the process that holds the lock, from the text in the lock file: "job 'lenet', process
// 4711 on node3, since ...". Leaves out what is missing, because the file may be damaged.
std::string DescribeHolder(int fd) {
  std::array<char, 4096> bytes{};
  ssize_t num_read = 0;
  // The holder writes the text shortly after it has taken the lock. So an empty file is read again.
  for (int attempt = 0; num_read <= 0 && attempt < 20; ++attempt) {
    if (attempt > 0) poll(nullptr, 0, 5);
    num_read = pread(fd, bytes.data(), bytes.size(), 0);
  }
  std::istringstream lines(
      std::string(bytes.data(), static_cast<size_t>(num_read < 0 ? 0 : num_read)));
  std::string pid, host, job, since;
  for (std::string line; std::getline(lines, line);) {
    for (const auto& [key, value] : {std::pair{"pid: ", &pid}, std::pair{"host: ", &host},
                                     std::pair{"job: ", &job}, std::pair{"since: ", &since}}) {
      if (line.starts_with(key)) *value = Printable(line.substr(std::strlen(key)));
    }
  }
  return Cat("job ", job.empty() ? "of another process" : Cat("'", job, "'"),
             pid.empty() ? "" : Cat(", process ", pid), host.empty() ? "" : Cat(" on ", host),
             since.empty() ? "" : Cat(", since ", since));
}

Status InUseError(const std::string& folder, int fd) {
  return Status(Code::kAddress,
                Cat("the folder ", folder, " is in use by ", DescribeHolder(fd),
                    "; wait until that job has ended, or give this one a folder of its own: --set "
                    "output_dir=FOLDER"));
}

// Opens the lock file; returns -1 and sets errno on failure. Refuses a path that is a pipe or a
// symbolic link.
int OpenLockFile(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
  struct stat file_info = {};
  if (fd < 0 || (fstat(fd, &file_info) == 0 && S_ISREG(file_info.st_mode))) return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

}  // namespace

Result<FolderLock> FolderLock::TryLock(const std::string& folder, const std::string& name,
                                       const std::string& job) {
  (void)Disk().CreateFolders(folder);  // If that fails, opening the file below fails, too.
  const std::string path = Cat(folder, "/", name);
  const auto make_without_lock = [&path] {
    return FolderLock(-1, Cat("cannot lock ", path, ": ", std::strerror(errno),
                              "; nothing keeps a second job from writing into the same folder"));
  };
  const int fd = OpenLockFile(path, O_RDWR | O_CREAT);
  if (fd < 0) return make_without_lock();
  FolderLock lock(fd, "");
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return InUseError(folder, fd);
    return make_without_lock();
  }
  const std::string text = Cat("pid: ", getpid(), "\nhost: ", HostName(), "\njob: ", Printable(job),
                               "\nsince: ", LocalTime(), "\n");
  // Errors are ignored, because the lock does not depend on this text.
  (void)!ftruncate(fd, 0);
  (void)!pwrite(fd, text.data(), text.size(), 0);
  return lock;
}

Status FolderLock::CheckFree(const std::string& folder, const std::string& name) {
  const FolderLock file(OpenLockFile(Cat(folder, "/", name), O_RDONLY), "");
  if (file.fd_ < 0 || flock(file.fd_, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return Ok();
  return InUseError(folder, file.fd_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), warning_(std::move(other.warning_)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(warning_, other.warning_);
  return *this;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace tern
