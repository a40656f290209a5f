#include "common/base/atomic_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern {
namespace {

constexpr std::string_view kTemporaryInfix = ".tmp.";
constexpr size_t kSuffixDigits = 16;

// Random, so that nobody can place a file or link with the temporary name beforehand.
std::string RandomSuffix() {
  uint64_t number = 0;
  randombytes_buf(&number, sizeof number);
  return Hex(number);
}

Status ReadError(const std::string& what) {
  return Status(Code::kBadData, what + ": " + std::strerror(errno));
}

std::string ParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace

std::string TemporaryPathOf(const std::string& path) {
  return Cat(path, kTemporaryInfix, RandomSuffix());
}

Status WriteFileAtomically(const std::string& path, std::string_view bytes, Storage& storage) {
  const std::string temporary_path = TemporaryPathOf(path);
  Status status = storage.Write(temporary_path, bytes);
  if (status.ok()) {
    if (const std::error_code error = storage.Rename(temporary_path, path)) {
      status = Status(Code::kCannotWrite,
                      Cat("cannot rename ", temporary_path, " to ", path, ": ", error.message()));
    }
  }
  if (!status.ok()) {
    storage.Remove(temporary_path);
    return status;
  }
  storage.FlushFolder(ParentFolder(path));
  return Ok();
}

std::string_view NameWithoutTemporarySuffix(std::string_view name) {
  const size_t infix_at = name.rfind(kTemporaryInfix);
  if (infix_at == std::string_view::npos) return "";
  const std::string_view suffix = name.substr(infix_at + kTemporaryInfix.size());
  const bool is_suffix = suffix.size() == kSuffixDigits &&
                         suffix.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_suffix ? name.substr(0, infix_at) : "";
}

Result<std::string> ReadWholeFile(const std::string& path, uint64_t max_bytes) {
  return Disk().Read(path, max_bytes);
}

Result<std::string> ReadAtMost(const std::string& path, uint64_t max_bytes, Time timeout) {
  // With O_NONBLOCK, opening a pipe does not wait for a writer. The poll() below waits for data,
  // with a timeout.
  File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (file.fd() < 0) return ReadError("cannot open " + path);
  const auto wait_ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  std::string bytes;
  std::array<char, 65536> buffer;
  while (bytes.size() < max_bytes) {
    pollfd poll_entry{file.fd(), POLLIN, 0};
    const int num_ready =
        poll(&poll_entry, 1, isatty(file.fd()) == 1 ? -1 : static_cast<int>(wait_ms));
    if (num_ready == 0) {
      return Status(Code::kBadData,
                    Cat(path, " is not a regular file, and it delivered nothing for ",
                        HumanTime(timeout), "; give a file"));
    }
    const uint64_t max_read = std::min<uint64_t>(buffer.size(), max_bytes - bytes.size());
    const ssize_t num_read = read(file.fd(), buffer.data(), max_read);
    if (num_read == 0) break;
    if (num_read > 0) {
      bytes.append(buffer.data(), static_cast<size_t>(num_read));
    } else if (errno != EINTR && errno != EAGAIN) {
      return ReadError("cannot read " + path);
    }
  }
  return bytes;
}

}  // namespace tern
