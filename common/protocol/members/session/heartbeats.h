// Sends a worker's heartbeats to every shard. They carry the newest round that the worker has
// applied, its progress and, for shard 0, its counters.
#pragma once

#include <cstdint>

#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

class Heartbeats {
 public:
  explicit Heartbeats(const SessionState* state) : state_(*state) {}

  // `progress` grows whenever the compute thread advances; `waiting`: that thread waits for other
  // daemons.
  void SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters);
  void Send(Time now, SessionActions* out);
  void OnTimer(Time now, SessionActions* out);  // sends a heartbeat when one is due

 private:
  const SessionState& state_;
  Time sent_at_{};
  uint64_t progress_ = 0;
  bool is_waiting_ = false;
  pb::Counters counters_;
};

}  // namespace tern::protocol
