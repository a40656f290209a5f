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
    // The random number that identifies the worker's process; 0: no process has the rank. Always 0
    // for a shard, because a shard may restart and still must get the message.
    uint64_t incarnation = 0;
    Peer peer = 0;         // the connection; 0: none yet
    Time awaited_until{};  // how long to wait for the recipient's answer; zero: not at all
  };

  // Sends `message` (End or Abort) to all recipients. Its last_step is this process's, too.
  // `status`: the status with which this process ends when all have answered, or are awaited no
  // longer. `resend_after`: the time between two repetitions.
  void Start(Message message, Status status, std::vector<Recipient> recipients, Time resend_after,
             Time now, ControlActions* out);
  // An End is a recipient's answer. A hello, Bye or heartbeat gets the last message as its answer.
  void OnMessage(Peer from, const Message& message, ControlActions* out);
  void OnTimer(Time now, ControlActions* out);

  bool started() const { return has_started_; }

 private:
  void AnswerSender(const Recipient& sender, ControlActions* out);
  void EndIfAnswered(ControlActions* out);

  bool has_started_ = false, is_over_ = false;
  Message message_;
  Status status_;
  std::vector<Recipient> recipients_;
  Time resend_after_{}, sent_at_{};
};

}  // namespace tern::protocol
