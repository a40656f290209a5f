// A mutex whose use clang checks at compile time (-Wthread-safety; clang's manual, "Thread Safety
// Analysis"). g++ ignores the annotations:
//
//   TERN_GUARDED_BY(m)   On a member: it may be read or written only while m is held.
//   TERN_MUST_HOLD(m)    On a function: it may be called only while m is held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define TERN_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TERN_THREAD_ANNOTATION(x)
#endif
#define TERN_GUARDED_BY(m) TERN_THREAD_ANNOTATION(guarded_by(m))
#define TERN_MUST_HOLD(...) TERN_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))

namespace tern {

class TERN_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() TERN_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void Unlock() TERN_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  // Does not wait; returns whether the mutex is now held.
  bool TryLock() TERN_THREAD_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// A scope guard: locks a mutex in its constructor and unlocks it in its destructor.
class TERN_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TERN_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() TERN_THREAD_ANNOTATION(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable. A wait may end without a notification, so wait in a loop that tests the
// condition.
class Condition {
 public:
  // Releases the mutex while it waits.
  void Wait(Mutex& mutex) TERN_MUST_HOLD(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // Like Wait(), but returns false when the time `until` is reached, and true after a notification.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point until) TERN_MUST_HOLD(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, until) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tern
