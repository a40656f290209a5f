// A small discrete-event simulation in virtual time, for `tern predict`: threads and connections
// that share cores and links. Deterministic: simultaneous events run in the order in which they
// were scheduled. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace tern::tools {

using Then = std::function<void()>;

// The clock, and the pending events.
class Simulation {
 public:
  double now() const { return now_; }  // seconds
  uint64_t events() const { return order_; }
  // REQUIRES time >= now().
  void At(double time, Then then) { events_.push({time, order_++, std::move(then)}); }
  void After(double seconds, Then then) { At(now_ + seconds, std::move(then)); }
  // Runs until `done`, which is called after every event. False: no events were left before that.
  bool RunUntil(const std::function<bool()>& done);

 private:
  struct Event {
    double time;
    uint64_t order;
    Then then;
    bool operator<(const Event& other) const {  // for a queue whose top is the earliest
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  double now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event> events_;
};

// A resource that its users share equally: the cores of a machine (capacity: cores; nobody gets
// more than one), or a link (capacity: bytes per second, with a limit for each user). All users
// proceed at the rate min(most_each, capacity / weight of all).
//
// A link may be a token bucket: capacity unused while it was idle, up to `burst`, can be used at
// once later.
class Shared {
 public:
  Shared(Simulation& simulation, double capacity, double most_each, double burst = 0);

  // Begins now: `amount` of work (seconds on a core, bytes), which counts as `weight` users.
  void Begin(double amount, double weight, Then then);
  bool busy() const { return weight_ > 0; }

 private:
  struct Job {
    double end;  // in work done per user since the beginning
    uint64_t order;
    double weight;
    Then then;
    bool operator<(const Job& other) const {
      return end != other.end ? end > other.end : order > other.order;
    }
  };

  double Rate() const;
  void Advance();
  void Plan();      // schedules the next end
  void EndThose();  // whose end has been reached

  Simulation& simulation_;
  const double capacity_, most_each_, burst_;
  double tokens_;
  double done_each_ = 0;  // work that a user present from the beginning would have got
  double at_ = 0;         // the time of done_each_
  double weight_ = 0;
  uint64_t order_ = 0, plan_ = 0;
  std::priority_queue<Job> jobs_;
};

// A thread on a machine, or a connection on a link: does one piece of work after the other.
class Queue {
 public:
  explicit Queue(Shared& shared) : shared_(&shared) {}

  // Calls `begun` (may be empty) when this piece begins, and `then` when it is done.
  void Add(double amount, Then then, double weight = 1, Then begun = nullptr);
  // Queues before everything from Add: work that the thread does before it takes the next item.
  void AddNext(double amount, Then then);
  bool idle() const { return !at_work_ && next_.empty() && waiting_.empty(); }

 private:
  struct Piece {
    double amount, weight;
    Then then, begun;
  };
  void Next();

  Shared* shared_;
  std::deque<Piece> next_, waiting_;
  bool at_work_ = false;
};

}  // namespace tern::tools
