// A small discrete-event simulation in virtual time, for `tern forecast`: an event loop, resources
// that several users share, and work queues. Deterministic: simultaneous events run in the order in
// which they were scheduled. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace tern::tools {

using Callback = std::function<void()>;

// The virtual clock and the pending events.
class EventLoop {
 public:
  double now() const { return now_; }  // seconds
  // REQUIRES time >= now().
  void ScheduleAt(double time, Callback callback) {
    events_.push({time, next_sequence_number_++, std::move(callback)});
  }
  void ScheduleAfter(double seconds, Callback callback) {
    ScheduleAt(now_ + seconds, std::move(callback));
  }
  // Runs events until `done` returns true, and calls `done` before every event. Returns false if no
  // event is left and `done` still returns false.
  bool RunUntil(const std::function<bool()>& done);

 private:
  struct Event {
    double time;
    uint64_t sequence_number;
    Callback callback;
    bool operator<(
        const Event& other) const {  // The largest event, which runs first, is the earliest.
      return time != other.time ? time > other.time : sequence_number > other.sequence_number;
    }
  };

  double now_ = 0;
  uint64_t next_sequence_number_ = 0;
  std::priority_queue<Event> events_;
};

// A resource that its users share equally: the cores of a machine (the capacity is their number,
// and a user gets at most one), or a network link (the capacity is in bytes per second). Every user
// proceeds at the rate min(max_rate, capacity / max(1, total weight of the users)).
//
// A link may be a token bucket: while the link is idle it saves up to `burst` bytes of capacity,
// and the next user transfers these bytes in no time.
class SharedResource {
 public:
  SharedResource(EventLoop& loop, double capacity, double max_rate, double burst = 0);

  // Starts a task now: `amount` of work (seconds on a core, or bytes) that counts as `weight`
  // users. Calls `on_done` at its end.
  void StartTask(double amount, double weight, Callback on_done);
  bool busy() const { return total_weight_ > 0; }

 private:
  struct Task {
    double end_progress;  // The task ends when progress_ has this value.
    uint64_t sequence_number;
    double weight;
    Callback on_done;
    bool operator<(const Task& other) const {
      return end_progress != other.end_progress ? end_progress > other.end_progress
                                                : sequence_number > other.sequence_number;
    }
  };

  double RatePerUser() const;
  void UpdateProgress();
  void ScheduleNextEnd();
  void EndDueTasks();

  EventLoop& loop_;
  const double capacity_, max_rate_, burst_;
  double saved_burst_;
  double progress_ = 0;      // The work that a user would have received if it had run since time 0.
  double updated_at_ = 0;    // The time at which progress_ was computed.
  double total_weight_ = 0;  // The total weight of the running tasks.
  uint64_t next_sequence_number_ = 0;
  // The number of the newest event that ends tasks. Older events of this kind do nothing.
  uint64_t newest_schedule_number_ = 0;
  std::priority_queue<Task> tasks_;
};

// A thread on a machine, or one direction of a connection on a link. It runs one task after the
// other.
class WorkQueue {
 public:
  explicit WorkQueue(SharedResource& resource) : resource_(&resource) {}

  // Adds a task; see SharedResource::StartTask for `amount` and `weight`. The queue calls
  // `on_begin` when the task begins, and `on_done` at its end. Both may be empty.
  void AddTask(double amount, Callback on_done, double weight = 1, Callback on_begin = nullptr);
  // Adds a task that runs before all waiting tasks that AddTask has added.
  void AddUrgentTask(double amount, Callback on_done);

 private:
  struct Task {
    double amount, weight;
    Callback on_done, on_begin;
  };
  void BeginNext();

  SharedResource* resource_;
  std::deque<Task> urgent_tasks_, normal_tasks_;
  bool is_running_ = false;
};

}  // namespace tern::tools
