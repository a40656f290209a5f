// Sends shard 0's last message, End or Abort, to all daemons. Repeats it until each has answered or
// a deadline has passed, so that a lost message or connection does not keep a daemon waiting.
#pragma once

#include <vector>

#include "common/protocol/members/control.h"

namespace tern::protocol {

class Farewell {
 public:
  struct Recipient {
    pb::Hello::Role role = pb::Hello::worker;
    uint32_t rank = 0;
    uint64_t incarnation = 0;  // the worker's; 0: no process has the rank. Always 0 for a shard,
                               // which may have restarted since
    Peer peer = 0;             // 0: no connection yet
    bool expected = true;      // whether to wait for its answer
  };

  // `message`: End or Abort. `status`: what this process ends with when all have answered.
  // `again_after`: the time between two repetitions. `until`: the deadline.
  void Start(Message message, Status status, std::vector<Recipient> recipients, Time again_after,
             Time until, Time now, ControlActions* out);
  // An End answers the last message. A hello, Bye or heartbeat is answered with the last message.
  void OnMessage(Peer from, const Message& message, ControlActions* out);
  void OnTimer(Time now, ControlActions* out);

  bool started() const { return started_; }

 private:
  void Tell(const Recipient& who, ControlActions* out);
  void EndIfAnswered(ControlActions* out);

  bool started_ = false, over_ = false;
  Message message_;
  Status status_;
  std::vector<Recipient> recipients_;
  Time again_after_{}, said_at_{}, until_{};
};

}  // namespace tern::protocol
