// A flag for poll(): its file descriptor is readable while the flag is raised. Thread-safe.
#pragma once

namespace tern {

class EventFd {
 public:
  EventFd();
  ~EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  // The descriptor to poll. -1 if the process is out of file descriptors; Raise and Lower then do
  // nothing.
  int fd() const { return fd_; }
  void Raise();
  void Lower();

 private:
  int fd_;
};

}  // namespace tern
