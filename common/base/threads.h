// A named thread that is joined when its object goes out of scope. Before that, its owner must tell
// the thread to stop (by closing a channel or setting a flag). The thread may run on any CPU, even
// if BindThreadToCpus (cpus.h) was called in the thread that starts it.
#pragma once

#include <pthread.h>

#include <functional>
#include <string>
#include <thread>

namespace tern {

// What a process that the system gives no more memory says, after the name of the thread.
inline constexpr const char* kOutOfMemory =
    "the system gave it no more memory; `tern check JOB` says how much a job needs, `tern doctor "
    "JOB` how much there is";

class Thread {
 public:
  Thread() = default;
  // Starts a thread that runs `body`. ps and debuggers show `name`, cut to 15 characters. If the
  // system cannot start the thread, or later gives `body` no more memory (std::bad_alloc), the
  // process prints an error and ends with exit code 70.
  Thread(const std::string& name, std::function<void()> body);
  ~Thread() { Join(); }
  Thread(Thread&& other) noexcept = default;
  Thread& operator=(Thread&& other) noexcept;

  // Waits until `body` has returned. May be called more than once, but not from the thread itself.
  void Join();
  // Whether a thread was started and is not joined yet.
  bool running() const { return thread_.joinable(); }
  // The system's handle of the thread. REQUIRES running().
  pthread_t handle() { return thread_.native_handle(); }

 private:
  std::thread thread_;
};

}  // namespace tern
