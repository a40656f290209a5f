#include "common/base/threads.h"

#include <unistd.h>

#include <cstdio>
#include <new>
#include <system_error>
#include <utility>

#include "common/base/cpus.h"
#include "common/base/status.h"

namespace tern {
namespace {

std::thread StartThread(const std::string& name, std::function<void()> body) {
  try {
    return std::thread([name = name.substr(0, 15), body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      UnbindThread();
      try {
        body();
      } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "thread %s: %s\n", name.c_str(), kOutOfMemory);
        _exit(static_cast<int>(Code::kInternal));
      }
    });
  } catch (const std::system_error& e) {
    std::fprintf(stderr, "cannot start the thread %s: %s; raise the limit of threads (ulimit -u)\n",
                 name.c_str(), e.what());
    _exit(static_cast<int>(Code::kInternal));
  }
}

}  // namespace

Thread::Thread(const std::string& name, std::function<void()> body)
    : thread_(StartThread(name, std::move(body))) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  Join();
  thread_ = std::move(other.thread_);
  return *this;
}

void Thread::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace tern
