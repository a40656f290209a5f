// Channel<T>: a first-in, first-out queue between threads, for any number of producers and
// consumers. A closed channel accepts no more items but still returns those that it holds.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/event_fd.h"

namespace tern {

template <typename T>
class Channel {
 public:
  // Holds at most `capacity` items; 0: unbounded, for uses with another bound (credits).
  explicit Channel(size_t capacity = 0) : capacity_(capacity) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits while the channel is full. Returns false, and drops the item, if the channel is closed.
  bool Push(T item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return closed_ || !FullLocked(); });
    if (closed_) return false;
    PutLocked(std::move(item));
    return true;
  }

  // Never waits. Returns false, and leaves `item` unchanged, if the channel is full or closed.
  bool TryPush(T& item) {
    std::lock_guard lock(mutex_);
    if (closed_ || FullLocked()) return false;
    PutLocked(std::move(item));
    return true;
  }

  // Never waits. Empty result: the channel is empty.
  std::optional<T> TryPop() {
    std::lock_guard lock(mutex_);
    return TakeLocked();
  }

  // Waits for an item. Empty result: the channel is closed and drained.
  std::optional<T> Pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return TakeLocked();
  }

  // Like Pop(), but also returns an empty result when Now() reaches `deadline`; drained() tells the
  // two cases apart.
  std::optional<T> Pop(Time deadline) {
    std::unique_lock lock(mutex_);
    const std::chrono::steady_clock::time_point until{deadline};
    not_empty_.wait_until(lock, until, [&] { return closed_ || !items_.empty(); });
    return TakeLocked();
  }

  // Wakes all waiting threads. May be called more than once.
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    not_empty_.notify_all();
    not_full_.notify_all();
    if (event_) event_->Raise();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  // Closed and empty: no more items will follow.
  bool drained() const {
    std::lock_guard lock(mutex_);
    return closed_ && items_.empty();
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

  // A file descriptor that is readable while the channel holds an item or is closed. Poll it, never
  // read it. The channel creates it on the first call and owns it; -1 if the process is out of
  // descriptors.
  int event_fd() {
    std::lock_guard lock(mutex_);
    if (!event_) {
      event_.emplace();
      if (closed_ || !items_.empty()) event_->Raise();
    }
    return event_->fd();
  }

 private:
  bool FullLocked() const { return capacity_ != 0 && items_.size() >= capacity_; }

  void PutLocked(T&& item) {
    items_.push_back(std::move(item));
    if (event_ && items_.size() == 1) event_->Raise();
    not_empty_.notify_one();
  }

  std::optional<T> TakeLocked() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    if (event_ && items_.empty() && !closed_) event_->Lower();
    not_full_.notify_one();
    return item;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable not_empty_, not_full_;
  std::deque<T> items_;
  bool closed_ = false;
  std::optional<EventFd> event_;
};

}  // namespace tern
