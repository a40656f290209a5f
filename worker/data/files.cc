#include "worker/data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/text.h"

namespace tern::data {
namespace {

Status BadDataError(const std::string& path, const std::string& what) {
  return Status(Code::kBadData, path + ": " + what);
}

}  // namespace

Result<InputFile> InputFile::Open(const std::string& path, const std::string& expected) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return BadDataError(path, Cat("cannot be opened (", std::strerror(errno),
                                  "); check that it is there, and its permissions"));
  }
  struct stat file_stat {};
  if (fstat(fd, &file_stat) != 0 || !S_ISREG(file_stat.st_mode)) {
    close(fd);
    return BadDataError(path, "not a regular file; expected " + expected);
  }
  return InputFile(fd, static_cast<uint64_t>(file_stat.st_size));
}

InputFile::InputFile(InputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

size_t InputFile::ReadAt(uint64_t offset, std::span<uint8_t> buffer) const {
  size_t bytes_read = 0;
  while (bytes_read < buffer.size()) {
    const ssize_t num_read = pread(fd_, buffer.data() + bytes_read, buffer.size() - bytes_read,
                                   static_cast<off_t>(offset + bytes_read));
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read <= 0) break;
    bytes_read += static_cast<size_t>(num_read);
  }
  return bytes_read;
}

template <typename Bytes>
Status ReadWholeFile(const std::string& path, const std::string& expected, uint64_t max_bytes,
                     Bytes* bytes) {
  const Result<InputFile> file = InputFile::Open(path, expected);
  if (!file.ok()) return file.status();
  if (file->size() > max_bytes)
    return BadDataError(path, Cat(file->size(), " bytes, more than the ", max_bytes, " allowed"));
  bytes->resize(file->size());
  const size_t num_read =
      file->ReadAt(0, {reinterpret_cast<uint8_t*>(bytes->data()), bytes->size()});
  if (num_read == file->size()) return Ok();
  return BadDataError(path, Cat("only ", num_read, " of ", file->size(), " bytes could be read"));
}
template Status ReadWholeFile(const std::string&, const std::string&, uint64_t, std::string*);
template Status ReadWholeFile(const std::string&, const std::string&, uint64_t,
                              std::vector<uint8_t>*);

}  // namespace tern::data
