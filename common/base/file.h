// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace tern {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}  // below 0: none
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  // False with errno: not all that was written has arrived.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

}  // namespace tern
