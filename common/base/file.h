// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace tern {

class File {
 public:
  // Takes ownership of `fd`. A negative `fd` means that no file is open.
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  // Closes the file. Returns false, with errno set, if some of the written bytes may be lost.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

}  // namespace tern
