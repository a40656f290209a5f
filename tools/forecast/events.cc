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
    : loop_(loop), capacity_(capacity), max_rate_(max_rate), burst_(burst), saved_burst_(burst) {}

double SharedResource::RatePerUser() const {
  return std::min(max_rate_, capacity_ / std::max(total_weight_, 1.0));
}

void SharedResource::UpdateProgress() {
  const double elapsed_s = loop_.now() - updated_at_;
  updated_at_ = loop_.now();
  if (busy()) {
    if (RatePerUser() != std::numeric_limits<double>::infinity())
      progress_ += elapsed_s * RatePerUser();
  } else if (burst_ > 0) {
    saved_burst_ = std::min(burst_, saved_burst_ + elapsed_s * capacity_);
  }
}

void SharedResource::StartTask(double amount, double weight, Callback on_done) {
  UpdateProgress();
  const double amount_from_burst = busy() ? 0 : std::min(saved_burst_, amount);
  saved_burst_ -= amount_from_burst;
  amount -= amount_from_burst;
  // A task with no work left also ends in a later event, after this function has returned.
  tasks_.push({progress_ + amount, next_sequence_number_++, weight, std::move(on_done)});
  total_weight_ += weight;
  ScheduleNextEnd();
}

void SharedResource::ScheduleNextEnd() {
  const uint64_t schedule_number = ++newest_schedule_number_;
  if (tasks_.empty()) return;
  const double rate = RatePerUser();
  const double work_left = std::max(0.0, tasks_.top().end_progress - progress_);
  const double wait_s =
      work_left == 0 || rate == std::numeric_limits<double>::infinity() ? 0 : work_left / rate;
  loop_.ScheduleAfter(wait_s, [this, schedule_number] {
    if (schedule_number == newest_schedule_number_) EndDueTasks();
  });
}

void SharedResource::EndDueTasks() {
  UpdateProgress();
  // Rounding errors must not leave a small rest of the task whose end is due.
  progress_ = std::max(progress_, tasks_.top().end_progress);
  std::vector<Callback> end_callbacks;
  while (!tasks_.empty() && tasks_.top().end_progress <= progress_) {
    total_weight_ = tasks_.size() == 1 ? 0 : total_weight_ - tasks_.top().weight;
    end_callbacks.push_back(tasks_.top().on_done);
    tasks_.pop();
  }
  ScheduleNextEnd();
  for (const Callback& callback : end_callbacks) callback();
}

void WorkQueue::AddTask(double amount, Callback on_done, double weight, Callback on_begin) {
  normal_tasks_.push_back({amount, weight, std::move(on_done), std::move(on_begin)});
  if (!is_running_) BeginNext();
}

void WorkQueue::AddUrgentTask(double amount, Callback on_done) {
  urgent_tasks_.push_back({amount, 1, std::move(on_done), nullptr});
  if (!is_running_) BeginNext();
}

void WorkQueue::BeginNext() {
  std::deque<Task>& queue = urgent_tasks_.empty() ? normal_tasks_ : urgent_tasks_;
  if (queue.empty()) return;
  is_running_ = true;
  Task task = std::move(queue.front());
  queue.pop_front();
  if (task.on_begin) task.on_begin();
  resource_->StartTask(task.amount, task.weight, [this, on_done = std::move(task.on_done)] {
    is_running_ = false;
    if (on_done) on_done();  // The callback may add and begin the next task.
    if (!is_running_) BeginNext();
  });
}

}  // namespace tern::tools
