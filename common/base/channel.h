// Channel<T>: a first-in, first-out queue between threads, for any number of producers and
// consumers. A closed channel accepts no more items but still returns those that it holds.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/event_fd.h"
#include "common/base/mutex.h"

namespace tern {

template <typename T>
class Channel {
 public:
  // The channel holds at most `capacity` items. With capacity 0 it has no bound: the caller then
  // limits the number of items in another way.
  explicit Channel(size_t capacity = 0) : capacity_(capacity) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits while the channel is full. Returns false, and drops the item, if the channel is closed.
  bool Push(T item) {
    const MutexLock lock(mutex_);
    while (!closed_ && IsFullLocked()) not_full_.Wait(mutex_);
    if (closed_) return false;
    PushLocked(std::move(item));
    return true;
  }

  // Never waits. Returns false, and leaves `item` unchanged, if the channel is full or closed.
  bool TryPush(T& item) {
    const MutexLock lock(mutex_);
    if (closed_ || IsFullLocked()) return false;
    PushLocked(std::move(item));
    return true;
  }

  // Never waits. Returns nullopt if the channel is empty.
  std::optional<T> TryPop() {
    const MutexLock lock(mutex_);
    return PopLocked();
  }

  // Waits for an item. Returns nullopt if the channel is closed and holds no more items.
  std::optional<T> Pop() {
    const MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) not_empty_.Wait(mutex_);
    return PopLocked();
  }

  // Like Pop(), but also returns nullopt when Now() reaches `deadline`. After nullopt, drained()
  // says whether the channel is closed and empty.
  std::optional<T> Pop(Time deadline) {
    const MutexLock lock(mutex_);
    const std::chrono::steady_clock::time_point until{deadline};
    while (!closed_ && items_.empty() && not_empty_.WaitUntil(mutex_, until)) {
    }
    return PopLocked();
  }

  // Closes the channel and wakes all waiting threads. May be called more than once.
  void Close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    not_empty_.NotifyAll();
    not_full_.NotifyAll();
    if (event_) event_->Raise();
  }

  bool closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }
  // Whether the channel is closed and empty, so that no more items will follow.
  bool drained() const {
    const MutexLock lock(mutex_);
    return closed_ && items_.empty();
  }
  size_t size() const {
    const MutexLock lock(mutex_);
    return items_.size();
  }

  // A file descriptor that is readable while the channel holds an item or is closed. Poll it, never
  // read it. The channel creates it on the first call and owns it; -1 if the process is out of
  // descriptors.
  int event_fd() {
    const MutexLock lock(mutex_);
    if (!event_) {
      event_.emplace();
      if (closed_ || !items_.empty()) event_->Raise();
    }
    return event_->fd();
  }

 private:
  // Each ...Locked method REQUIRES that the caller holds mutex_.
  bool IsFullLocked() const TERN_MUST_HOLD(mutex_) {
    return capacity_ != 0 && items_.size() >= capacity_;
  }

  void PushLocked(T&& item) TERN_MUST_HOLD(mutex_) {
    items_.push_back(std::move(item));
    if (event_ && items_.size() == 1) event_->Raise();
    not_empty_.NotifyOne();
  }

  std::optional<T> PopLocked() TERN_MUST_HOLD(mutex_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    if (event_ && items_.empty() && !closed_) event_->Lower();
    not_full_.NotifyOne();
    return item;
  }

  const size_t capacity_;
  mutable Mutex mutex_;
  Condition not_empty_, not_full_;
  std::deque<T> items_ TERN_GUARDED_BY(mutex_);
  bool closed_ TERN_GUARDED_BY(mutex_) = false;
  std::optional<EventFd> event_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern
