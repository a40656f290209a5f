#include "client/guest/tasks.h"

#include <utility>

namespace tern::client {

Result<GuestTask> Tasks::Next(Time patience) {
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    is_news = !std::exchange(is_wanted_, true);
    if (taken_.type == GuestTask::Type::kLoad) {
      taken_ = GuestTask();
      is_done_ = true;
    }
  }
  changed_.NotifyAll();
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
    if (taken_.type != GuestTask::Type::kEvaluate) return;
    score_ = score;
    taken_ = GuestTask();
    is_done_ = true;
  }
  changed_.NotifyAll();
}

void Tasks::SetState(Bytes state) {
  {
    const MutexLock lock(mutex_);
    if (taken_.type != GuestTask::Type::kSave) return;
    state_ = std::move(state);
    taken_ = GuestTask();
    is_done_ = true;
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

bool Tasks::Perform(const GuestTask& task) {
  {
    const MutexLock lock(mutex_);
    is_done_ = false;
  }
  Give(task);
  const MutexLock lock(mutex_);
  while (!is_done_ && !end_status_.has_value()) changed_.Wait(mutex_);
  return !end_status_.has_value();
}

std::optional<Score> Tasks::Evaluate(const GuestTask& task) {
  if (!Perform(task)) return std::nullopt;
  const MutexLock lock(mutex_);
  return score_;
}

std::optional<Bytes> Tasks::Save() {
  if (!Perform({.type = GuestTask::Type::kSave})) return std::nullopt;
  const MutexLock lock(mutex_);
  return std::exchange(state_, Bytes());
}

bool Tasks::Load(Bytes state) {
  return Perform({.type = GuestTask::Type::kLoad, .state = std::move(state)});
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
