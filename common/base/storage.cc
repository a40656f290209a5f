#include "common/base/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/failpoint.h"
#include "common/base/file.h"
#include "common/base/output_file.h"
#include "common/base/text.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

Status SystemError(Code code, const std::string& what) {
  return Status(code, what + ": " + std::strerror(errno));
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), std::min(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

class SystemDisk : public Storage {
 public:
  Status Write(const std::string& path, std::string_view bytes) override {
    const Result<int> fd = CreateAnew(path);
    if (!fd.ok()) return fd.status();
    File file(*fd);
    if (const auto failpoint = HitFailpoint(FailPlace::kDiskWrite)) {
      bytes = bytes.substr(0, bytes.size() / 2);
      if (failpoint->action == FailAction::kFull) {
        (void)WriteAll(file.fd(), bytes);
        errno = ENOSPC;
        return SystemError(Code::kCannotWrite, "cannot write " + path);
      }
    }
    if (!WriteAll(file.fd(), bytes)) return SystemError(Code::kCannotWrite, "cannot write " + path);
    if (fsync(file.fd()) != 0) return SystemError(Code::kCannotWrite, "cannot flush " + path);
    if (!file.Close()) return SystemError(Code::kCannotWrite, "cannot close " + path);
    return Ok();
  }

  std::error_code Rename(const std::string& from, const std::string& to) override {
    if (HitFailpoint(FailPlace::kDiskRename))
      return std::make_error_code(std::errc::no_space_on_device);
    std::error_code error;
    fs::rename(from, to, error);
    return error;
  }

  void Remove(const std::string& path) override { (void)unlink(path.c_str()); }

  std::error_code CreateFolders(const std::string& folder) override {
    std::error_code error;
    std::vector<fs::path> missing_folders;
    for (fs::path path = folder; !path.empty() && !fs::exists(path, error);
         path = path.parent_path())
      missing_folders.push_back(path);
    for (size_t i = missing_folders.size(); i > 0; --i) {
      const fs::path& missing_folder = missing_folders[i - 1];
      if (mkdir(missing_folder.c_str(), 0750) != 0 && errno != EEXIST)
        return std::error_code(errno, std::generic_category());
    }
    for (const fs::path& created_folder : missing_folders) {
      const fs::path parent = created_folder.parent_path();
      FlushFolder(parent.empty() ? "." : parent.string());
    }
    const bool is_folder = fs::is_directory(folder, error);
    return is_folder || error ? error : std::make_error_code(std::errc::not_a_directory);
  }

  void FlushFolder(const std::string& folder) override {
    File file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file.fd() >= 0) (void)fsync(file.fd());
  }

  Result<std::string> Read(const std::string& path, uint64_t max_bytes) const override {
    // With O_NONBLOCK, opening does not wait if the path is a pipe.
    File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file.fd() < 0) return SystemError(Code::kBadData, "cannot open " + path);
    struct stat file_info = {};
    if (fstat(file.fd(), &file_info) != 0)
      return SystemError(Code::kBadData, "cannot read " + path);
    if (!S_ISREG(file_info.st_mode)) return Status(Code::kBadData, path + " is not a regular file");
    const auto size = static_cast<uint64_t>(file_info.st_size);
    if (size > max_bytes)
      return Status(Code::kBadData,
                    Cat(path, " has ", size, " bytes, expected at most ", max_bytes));
    std::string bytes(size, '\0');
    size_t offset = 0;
    while (offset < bytes.size()) {
      const ssize_t n = read(file.fd(), bytes.data() + offset, bytes.size() - offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return SystemError(Code::kBadData, "cannot read " + path);
      if (n == 0) break;
      offset += static_cast<size_t>(n);
    }
    bytes.resize(offset);
    return bytes;
  }

  std::error_code List(const std::string& folder, std::vector<std::string>* names) const override {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error))
      names->push_back(entry->path().filename().string());
    return error == std::errc::no_such_file_or_directory ? std::error_code() : error;
  }

  bool Exists(const std::string& path) const override {
    std::error_code ignored_error;
    return fs::exists(path, ignored_error);
  }

  uint64_t SizeOf(const std::string& path) const override {
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    return error ? 0 : size;
  }
};

}  // namespace

Storage& Disk() {
  static SystemDisk disk;
  return disk;
}

}  // namespace tern
