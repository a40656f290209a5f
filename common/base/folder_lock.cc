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
#include <filesystem>
#include <sstream>
#include <utility>

#include "common/base/host_name.h"
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

// Reads "job 'lenet', process 4711 on node3, since ..." from the lock file. Skips missing parts,
// because the contents may be damaged.
std::string HolderIn(int fd) {
  std::array<char, 4096> bytes{};
  ssize_t got = 0;
  // The holder writes the text shortly after it has taken the lock.
  for (int tries = 0; got <= 0 && tries < 20; ++tries) {
    if (tries > 0) poll(nullptr, 0, 5);
    got = pread(fd, bytes.data(), bytes.size(), 0);
  }
  std::istringstream lines(std::string(bytes.data(), static_cast<size_t>(got < 0 ? 0 : got)));
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

Status InUse(const std::string& folder, int fd) {
  return Status(Code::kAddress,
                Cat("the folder ", folder, " is in use by ", HolderIn(fd),
                    "; wait until that job has ended, or give this one a folder of its own: --set "
                    "output_dir=FOLDER"));
}

// Opens the lock file; -1 and errno on failure. Refuses a pipe or a symbolic link in its place.
int OpenLockFile(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  struct stat info = {};
  if (fd < 0 || (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))) return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

}  // namespace

Result<FolderLock> FolderLock::Take(const std::string& folder, const std::string& name,
                                    const std::string& job) {
  std::error_code ignored;  // opening the file below reports the error
  std::filesystem::create_directories(folder, ignored);
  const std::string path = Cat(folder, "/", name);
  const auto unlocked = [&path] {
    return FolderLock(-1, Cat("cannot lock ", path, ": ", std::strerror(errno),
                              "; nothing keeps a second job from writing into the same folder"));
  };
  const int fd = OpenLockFile(path, O_RDWR | O_CREAT);
  if (fd < 0) return unlocked();
  FolderLock lock(fd, "");
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return InUse(folder, fd);
    return unlocked();
  }
  const std::string text = Cat("pid: ", getpid(), "\nhost: ", HostName(), "\njob: ", Printable(job),
                               "\nsince: ", LocalTime(), "\n");
  // Errors are ignored: the lock is held without the text as well.
  (void)!ftruncate(fd, 0);
  (void)!pwrite(fd, text.data(), text.size(), 0);
  return lock;
}

Status FolderLock::CheckFree(const std::string& folder, const std::string& name) {
  const FolderLock file(OpenLockFile(Cat(folder, "/", name), O_RDONLY), "");
  if (file.fd_ < 0 || flock(file.fd_, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return Ok();
  return InUse(folder, file.fd_);
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
