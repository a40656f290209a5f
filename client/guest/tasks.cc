#include "client/guest/tasks.h"

#include <utility>

namespace tern::client {

Result<GuestTask> Tasks::Next(Time patience) {
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    is_news = !std::exchange(is_wanted_, true);
  }
  if (is_news) wake_.Push(SamplesReady{});
  const std::chrono::steady_clock::time_point until{Now() + patience};
  const MutexLock lock(mutex_);
  while (given_.type == GuestTask::Type::kNone && !end_status_.has_value()) {
    if (!changed_.WaitUntil(mutex_, until)) return GuestTask();
  }
  if (end_status_.has_value()) {
    if (!end_status_->ok()) return *end_status_;
    return GuestTask{.type = GuestTask::Type::kOver};
  }
  is_wanted_ = false;
  taken_ = std::exchange(given_, GuestTask());
  return taken_;
}

GuestTask Tasks::taken() const {
  const MutexLock lock(mutex_);
  return taken_;
}

void Tasks::FinishTaken() {
  const MutexLock lock(mutex_);
  taken_ = GuestTask();
}

void Tasks::SetScore(const Score& score) {
  {
    const MutexLock lock(mutex_);
    score_ = score;
  }
  changed_.NotifyAll();
}

bool Tasks::IsWanted() const {
  const MutexLock lock(mutex_);
  return is_wanted_ || end_status_.has_value();
}

void Tasks::Give(const GuestTask& task) {
  {
    const MutexLock lock(mutex_);
    given_ = task;
  }
  changed_.NotifyAll();
}

bool Tasks::TakeBack() {
  const MutexLock lock(mutex_);
  return std::exchange(given_, GuestTask()).type != GuestTask::Type::kNone;
}

std::optional<Score> Tasks::Evaluate(const GuestTask& task) {
  {
    const MutexLock lock(mutex_);
    score_.reset();
  }
  Give(task);
  const MutexLock lock(mutex_);
  while (!score_.has_value() && !end_status_.has_value()) changed_.Wait(mutex_);
  return end_status_.has_value() ? std::nullopt : score_;
}

void Tasks::End(const Status& status) {
  {
    const MutexLock lock(mutex_);
    if (end_status_.has_value()) return;
    end_status_ = status;
  }
  changed_.NotifyAll();
  wake_.Push(SamplesReady{});
}

}  // namespace tern::client
