// Shard 0's last word, End or Abort: said to all, and said again until each has answered or some
// time has passed, so that one lost message or connection leaves nobody behind.
#pragma once

#include <vector>

#include "common/protocol/control.h"

namespace tern::protocol {

class Farewell {
 public:
  struct Guest {
    pb::Hello::Role role = pb::Hello::worker;
    uint32_t rank = 0;
    uint64_t incarnation = 0;  // of a worker, 0: nobody; a shard may be restarted meanwhile
    Peer peer = 0;             // 0: not heard of yet
    bool expected = true;      // waited for
  };

  void Start(Message message, Status status, std::vector<Guest> guests, Time again_after,
             Time until, Time now, ControlActions* out);
  // An End is the answer; whoever says hello, Bye or that it is alive is told (again).
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
