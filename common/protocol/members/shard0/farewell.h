// Shard 0's last message, End or Abort: sent to all, and repeated until each has answered or a
// deadline has passed, so that one lost message or connection leaves nobody behind.
#pragma once

#include <vector>

#include "common/protocol/members/control.h"

namespace tern::protocol {

class Farewell {
 public:
  struct Guest {
    pb::Hello::Role role = pb::Hello::worker;
    uint32_t rank = 0;
    uint64_t incarnation = 0;  // of a worker, 0: nobody; a shard may have restarted since
    Peer peer = 0;             // 0: not heard from yet
    bool expected = true;      // whether its answer is waited for
  };

  void Start(Message message, Status status, std::vector<Guest> guests, Time again_after,
             Time until, Time now, ControlActions* out);
  // An End is an answer; whoever sends a hello, Bye or heartbeat is told (again).
  void OnMessage(Peer from, const Message& message, ControlActions* out);
  void OnTimer(Time now, ControlActions* out);

  bool started() const { return started_; }

 private:
  void Tell(const Guest& who, ControlActions* out);
  void EndIfAnswered(ControlActions* out);

  bool started_ = false, over_ = false;
  Message message_;
  Status status_;
  std::vector<Guest> guests_;
  Time again_after_{}, said_at_{}, until_{};
};

}  // namespace tern::protocol
