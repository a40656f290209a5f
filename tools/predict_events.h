// A small simulation of events in virtual time, for `tern predict`: what threads and connections do
// to each other when they share cores and links. Deterministic: events of the same time run in the
// order in which they were asked for. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace tern::tools {

using Then = std::function<void()>;

// The clock, and what is to happen.
class Simulation {
 public:
  double now() const { return now_; }  // seconds
  uint64_t events() const { return order_; }
  // REQUIRES time >= now().
  void At(double time, Then then) { events_.push({time, order_++, std::move(then)}); }
  void After(double seconds, Then then) { At(now_ + seconds, std::move(then)); }
  // Until `done`, which is asked after every event. False: nothing is left to happen before that.
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

// Something that whoever is at work shares equally: the cores of a machine (capacity: cores, nobody
// gets more than one), or a link (capacity: bytes a second, and so much for one alone). All who are
// at work go on at the rate min(most_each, capacity / together).
//
// A link may be a token bucket: what it did not carry while it was idle, up to `burst`, it carries
// at once later.
class Shared {
 public:
  Shared(Simulation& simulation, double capacity, double most_each, double burst = 0);

  // Begins now: `amount` of work (seconds on a core, bytes), which counts as `weight` who are at
  // work.
  void Begin(double amount, double weight, Then then);
  bool busy() const { return weight_ > 0; }

 private:
  struct Job {
    double end;  // in work done for each since the beginning
    uint64_t order;
    double weight;
    Then then;
    bool operator<(const Job& other) const {
      return end != other.end ? end > other.end : order > other.order;
    }
  };

  double Rate() const;
  void Advance();
  void Plan();      // the event of the next end
  void EndThose();  // whose end has come

  Simulation& simulation_;
  const double capacity_, most_each_, burst_;
  double tokens_;
  double done_each_ = 0;  // work that one who was there from the beginning would have got
  double at_ = 0;         // the time of done_each_
  double weight_ = 0;
  uint64_t order_ = 0, plan_ = 0;
  std::priority_queue<Job> jobs_;
};

// A thread on a machine, or a connection on a link: one piece of work after the other.
class Queue {
 public:
  explicit Queue(Shared& shared) : shared_(&shared) {}

  // `begun` (may be empty) when it is this piece's turn, `then` when it is done.
  void Add(double amount, Then then, double weight = 1, Then begun = nullptr);
  // Before all that Add has put there: what the thread does before it looks for the next thing.
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
