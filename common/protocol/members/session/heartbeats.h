// Sends a worker's heartbeats to every shard. They carry the newest round that the worker has
// applied, its progress and, for shard 0, its counters.
#pragma once

#include <cstdint>

#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

class Heartbeats {
 public:
  explicit Heartbeats(const SessionState* state) : state_(*state) {}

  // `waiting`: the worker's threads wait for other daemons.
  void Set(bool waiting, const pb::Counters& counters);
  void Send(Time now, SessionActions* out);
  void OnTimer(Time now, SessionActions* out);  // sends a heartbeat when one is due

 private:
  const SessionState& state_;
  Time sent_at_{};
  bool is_waiting_ = false;
  pb::Counters counters_;
};

}  // namespace tern::protocol
