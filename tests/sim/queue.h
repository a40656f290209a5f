// The future events of the simulation, ordered by time. Events of the same time keep the order in
// which they were posted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/protocol/rounds/message.h"

namespace tern::sim {

struct Event {
  enum class Type : uint8_t {
    kToServer,       // message `index` on connection `who`
    kToClient,       // message `index` on connection `who`
    kConnect,        // the client of connection `who` tries to connect
    kDisconnected,   // the client of connection `who` learns that the connection is broken
    kWorkerTick,     // the timer of worker process `who`
    kWorkerTask,     // task `index` of worker process `who`
    kServerTick,     // the timer of server process `who`
    kServerMembers,  // data lane `index` of server process `who` gets its next membership message
    kFault,          // fault number `who` of the schedule is injected
    kThaw,           // worker process `who` continues after a freeze
    kWake,           // the host of server process `who` wakes
    kStartWorker,    // a process of rank `who` starts
    kStartServer,    // a process of shard `who` starts
    kStrangerTick,   // the stranger sends a message
    kOnHost,         // message `index` between processes of a host arrives at worker process `who`
  };
  protocol::Time time{};
  uint64_t order = 0;  // the number of this event in the order of posting
  Type type = Type::kFault;
  uint32_t who = 0;  // Type says what `who` and `index` are
  uint32_t index = 0;
};

class Queue {
 public:
  void Post(protocol::Time time, Event::Type type, uint32_t who, uint32_t index = 0) {
    events_.push_back({time, ++order_, type, who, index});
    std::push_heap(events_.begin(), events_.end(), IsLater);
  }
  bool empty() const { return events_.empty(); }
  Event Pop() {
    std::pop_heap(events_.begin(), events_.end(), IsLater);
    const Event event = events_.back();
    events_.pop_back();
    return event;
  }

 private:
  static bool IsLater(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
  std::vector<Event> events_;
  uint64_t order_ = 0;
};

}  // namespace tern::sim
