// Shard 0's last word, End or Abort: said to all, and said again until each has answered or some
// time has passed, so that one lost message leaves nobody behind.
#pragma once

#include <vector>

#include "common/protocol/control.h"

namespace tern::protocol {

class Farewell {
 public:
  // To everybody in `told`; only those in `expected` are waited for.
  void Start(Message message, Status status, const std::vector<Peer>& told,
             std::vector<Peer> expected, Time again_after, Time until, Time now,
             ControlActions* out);
  // Any message but a contribution: an End without fields is the answer, anything else is answered.
  void OnMessage(Peer from, const Message& message, ControlActions* out);
  void OnTimer(Time now, ControlActions* out);

  bool started() const { return started_; }
  bool over() const { return over_; }

 private:
  void EndIfAnswered(ControlActions* out);

  bool started_ = false, over_ = false;
  Message message_;
  Status status_;
  std::vector<Peer> expected_;
  Time again_after_{}, said_at_{}, until_{};
};

}  // namespace tern::protocol
