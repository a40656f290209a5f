// A worker's signs of life, to every shard, and what they tell of its progress.
#pragma once

#include <cstdint>

#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

class Heartbeats {
 public:
  explicit Heartbeats(const SessionState* state) : state_(*state) {}

  // `progress` moves whenever the compute thread does; `waiting` while that waits for others.
  void SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters);
  void Send(Time now, SessionActions* out);
  void OnTimer(Time now, SessionActions* out);  // sends one where it is time

 private:
  const SessionState& state_;
  Time sent_at_{};
  uint64_t progress_ = 0;
  bool waiting_ = false;
  pb::Counters counters_;
};

}  // namespace tern::protocol
