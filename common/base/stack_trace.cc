#include "common/base/stack_trace.h"

#include <execinfo.h>
#include <semaphore.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "common/base/mutex.h"

namespace tern {
namespace {

// A request goes from kAsked to kAnswering to kNone. The signal may arrive after the caller has
// given up (kAsked to kNone); the handler then does nothing.
enum Request : int { kNone, kAsked, kAnswering };

std::atomic<int> g_request{kNone};
std::array<void*, 64> g_frames;
int g_num_frames = 0;
sem_t g_answered;

void OnSignal(int) {
  const int errno_before = errno;
  int asked = kAsked;
  if (g_request.compare_exchange_strong(asked, kAnswering)) {
    g_num_frames = backtrace(g_frames.data(), static_cast<int>(g_frames.size()));
    sem_post(&g_answered);
  }
  errno = errno_before;
}

void InstallHandler() {
  sem_init(&g_answered, 0, 0);
  void* frame = nullptr;
  backtrace(&frame, 1);  // The first call allocates memory, which a signal handler must not do.
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGURG, &action, nullptr);
}

// Returns whether the thread has answered within a second.
bool AwaitAnswer() {
  timespec deadline = {};
  clock_gettime(CLOCK_REALTIME, &deadline);
  ++deadline.tv_sec;
  int wait_result = 0;
  while ((wait_result = sem_timedwait(&g_answered, &deadline)) != 0 && errno == EINTR) {
  }
  if (wait_result == 0) return true;
  int asked = kAsked;
  if (g_request.compare_exchange_strong(asked, kNone)) return false;
  while (sem_wait(&g_answered) != 0 && errno == EINTR) {
  }
  return true;
}

}  // namespace

std::string StackOfThread(pthread_t thread) {
  static Mutex mutex;
  const MutexLock lock(mutex);
  [[maybe_unused]] static const bool is_installed = [] {
    InstallHandler();
    return true;
  }();
  g_request = kAsked;
  if (pthread_kill(thread, SIGURG) != 0 || !AwaitAnswer()) {
    g_request = kNone;
    return "its stack cannot be read: the thread takes no signal (a debugger holds it, or it waits "
           "in the kernel, for example for a disk)";
  }
  g_request = kNone;
  const std::unique_ptr<char*, decltype(&std::free)> symbols(
      backtrace_symbols(g_frames.data(), g_num_frames), &std::free);
  std::string stack = "its stack:";
  // The first two frames are the handler and the return from the signal.
  for (int i = 2; i < g_num_frames && symbols != nullptr; ++i)
    stack += std::string("\n  ") + symbols.get()[i];
  return stack;
}

}  // namespace tern
