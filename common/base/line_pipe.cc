#include "common/base/line_pipe.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace tern {
namespace {

// Whether half of the pipe stays free with so many bytes more. The kernel counts pages, and a page
// that begins one line may end half empty, so bytes count twice.
bool LeavesRoom(int fd, size_t num_bytes) {
  const int capacity = fcntl(fd, F_GETPIPE_SZ);
  int num_waiting = 0;
  if (capacity <= 0 || ioctl(fd, FIONREAD, &num_waiting) != 0) return true;
  // In a pipe of 64 KiB, all that an account may get, a line of a thousand workers is long.
  if (num_waiting == 0) return 2 * num_bytes <= static_cast<size_t>(capacity);
  return 4 * (static_cast<size_t>(num_waiting) + num_bytes) <= static_cast<size_t>(capacity);
}

}  // namespace

bool WriteLine(int fd, std::string_view line, LineValue value) {
  const std::string bytes = std::string(line) + "\n";
  if (value == LineValue::kPassing && !LeavesRoom(fd, bytes.size())) return false;
  return write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

}  // namespace tern
