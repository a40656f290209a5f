// A thread with a name that joins when it goes out of scope. Before that the owner tells it to stop
// by other means (a closed channel, a flag). It may run on any CPU, whatever cpus.h bound the
// starting thread to.
#pragma once

#include <pthread.h>

#include <functional>
#include <string>
#include <thread>

namespace tern {

class Thread {
 public:
  Thread() = default;
  // Runs `body` at once. `name` is shown by ps and debuggers, cut to 15 characters. If the system
  // cannot start another thread, the process ends with a sentence and exit code 70.
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
