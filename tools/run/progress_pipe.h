// A non-blocking pipe for progress. Shard 0 gets the writing end, and must never wait for this
// process to read.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/status.h"
#include "common/base/text.h"

namespace tern::tools {

class ProgressPipe {
 public:
  ProgressPipe() {
    if (pipe2(pipe_fds_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      status_ = Status(Code::kInternal, Cat("cannot create a pipe: ", std::strerror(errno)));
      return;
    }
    // A pipe of this size holds minutes of progress while this process is stopped (Ctrl-Z).
    fcntl(pipe_fds_[1], F_SETPIPE_SZ, 1 << 20);
  }
  ~ProgressPipe() {
    for (const int fd : pipe_fds_) {
      if (fd >= 0) close(fd);
    }
  }
  ProgressPipe(const ProgressPipe&) = delete;
  ProgressPipe& operator=(const ProgressPipe&) = delete;

  // kInternal: there is no pipe.
  const Status& status() const { return status_; }
  int reader() const { return pipe_fds_[0]; }
  int writer() const { return pipe_fds_[1]; }

 private:
  std::array<int, 2> pipe_fds_ = {-1, -1};
  Status status_;
};

}  // namespace tern::tools
