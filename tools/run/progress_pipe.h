// A non-blocking pipe for progress. Shard 0 gets the writing end, and must never wait for this
// process to read.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

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
    // A quarter of this holds some minutes of progress while this process is stopped (Ctrl-Z), and
    // the rest is for the end (common/base/line_pipe.h).
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

// Finds the lines in what comes out of such a pipe.
class ProgressLines {
 public:
  // Reads what is there now, and calls `take` with each line that is whole.
  void Read(int fd, const std::function<void(const std::string& line)>& take) {
    std::array<char, 16384> bytes;
    for (ssize_t num_read = 0; (num_read = read(fd, bytes.data(), bytes.size())) > 0;)
      Take({bytes.data(), static_cast<size_t>(num_read)}, take);
  }
  // The same with bytes that somebody else has read.
  void Take(std::string_view bytes, const std::function<void(const std::string& line)>& take) {
    partial_ += bytes;
    for (size_t end = 0; (end = partial_.find('\n')) != std::string::npos;
         partial_.erase(0, end + 1)) {
      take(partial_.substr(0, end));
    }
    if (partial_.size() > kMaxLineBytes) partial_.clear();
  }

 private:
  static constexpr size_t kMaxLineBytes = 1 << 20;

  std::string partial_;  // A line without its end.
};

}  // namespace tern::tools
