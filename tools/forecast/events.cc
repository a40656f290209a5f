#include "tools/forecast/events.h"

#include <algorithm>
#include <utility>

namespace tern::tools {

bool EventLoop::RunUntil(const std::function<bool()>& done) {
  while (!done()) {
    if (events_.empty()) return false;
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    event.callback();
  }
  return true;
}

SharedResource::SharedResource(EventLoop& loop, double capacity, double max_rate, double burst)
    : loop_(loop), capacity_(capacity), max_rate_(max_rate), burst_(burst), tokens_(burst) {}

double SharedResource::Rate() const {
  return std::min(max_rate_, capacity_ / std::max(weight_, 1.0));
}

void SharedResource::UpdateProgress() {
  const double passed = loop_.now() - updated_at_;
  updated_at_ = loop_.now();
  if (busy()) {
    if (Rate() != std::numeric_limits<double>::infinity()) progress_ += passed * Rate();
  } else if (burst_ > 0) {
    tokens_ = std::min(burst_, tokens_ + passed * capacity_);
  }
}

void SharedResource::Start(double amount, double weight, Callback on_done) {
  UpdateProgress();
  const double from_burst = busy() ? 0 : std::min(tokens_, amount);
  tokens_ -= from_burst;
  amount -= from_burst;
  // A task with no work left also ends in a later event, after this function has returned.
  tasks_.push({progress_ + amount, order_++, weight, std::move(on_done)});
  weight_ += weight;
  ScheduleNextEnd();
}

void SharedResource::ScheduleNextEnd() {
  const uint64_t schedule = ++newest_schedule_;
  if (tasks_.empty()) return;
  const double rate = Rate();
  const double left = std::max(0.0, tasks_.top().end - progress_);
  const double wait =
      left == 0 || rate == std::numeric_limits<double>::infinity() ? 0 : left / rate;
  loop_.ScheduleAfter(wait, [this, schedule] {
    if (schedule == newest_schedule_) EndDueTasks();
  });
}

void SharedResource::EndDueTasks() {
  UpdateProgress();
  // Rounding errors must not leave a small rest of the task whose end is due.
  progress_ = std::max(progress_, tasks_.top().end);
  std::vector<Callback> callbacks;
  while (!tasks_.empty() && tasks_.top().end <= progress_) {
    weight_ = tasks_.size() == 1 ? 0 : weight_ - tasks_.top().weight;
    callbacks.push_back(tasks_.top().on_done);
    tasks_.pop();
  }
  ScheduleNextEnd();
  for (const Callback& callback : callbacks) callback();
}

void WorkQueue::Add(double amount, Callback on_done, double weight, Callback on_begin) {
  normal_.push_back({amount, weight, std::move(on_done), std::move(on_begin)});
  if (!running_) BeginNext();
}

void WorkQueue::AddUrgent(double amount, Callback on_done) {
  urgent_.push_back({amount, 1, std::move(on_done), nullptr});
  if (!running_) BeginNext();
}

void WorkQueue::BeginNext() {
  std::deque<Task>& queue = urgent_.empty() ? normal_ : urgent_;
  if (queue.empty()) return;
  running_ = true;
  Task task = std::move(queue.front());
  queue.pop_front();
  if (task.on_begin) task.on_begin();
  resource_->Start(task.amount, task.weight, [this, on_done = std::move(task.on_done)] {
    running_ = false;
    if (on_done) on_done();  // The callback may add and begin the next task.
    if (!running_) BeginNext();
  });
}

}  // namespace tern::tools
