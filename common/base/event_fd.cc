#include "common/base/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace tern {

EventFd::EventFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EventFd::~EventFd() {
  if (fd_ >= 0) close(fd_);
}

void EventFd::Raise() {
  const uint64_t increment = 1;
  // The write fails only if the descriptor's counter is full; the flag is raised then anyway.
  if (fd_ >= 0) [[maybe_unused]]
    const ssize_t n = write(fd_, &increment, sizeof increment);
}

void EventFd::Lower() {
  uint64_t count = 0;
  if (fd_ >= 0) [[maybe_unused]]
    const ssize_t n = read(fd_, &count, sizeof count);
}

}  // namespace tern
