// A thread with a name that joins when it goes out of scope. The owner tells it to stop by other
// means (a closed channel, a flag) before that. It runs on any CPU, whatever the thread that starts
// it is bound to by cpus.h.
#pragma once

#include <pthread.h>

#include <functional>
#include <string>
#include <thread>

namespace tern {

class Thread {
 public:
  Thread() = default;
  // Runs `body` at once. `name` is what ps and debuggers show, cut to 15 characters. Where the
  // system gives no further thread, the process ends with a sentence and exit code 70.
  Thread(const std::string& name, std::function<void()> body);
  ~Thread() { Join(); }
  Thread(Thread&& other) noexcept = default;
  Thread& operator=(Thread&& other) noexcept;

  // Waits for the body to end. May be called more than once, never from the thread itself.
  void Join();
  bool running() const { return thread_.joinable(); }
  // The system's handle. REQUIRES running().
  pthread_t handle() { return thread_.native_handle(); }

 private:
  std::thread thread_;
};

}  // namespace tern
