// Where a daemon has keys, checks before any state machine that a message is from whom it says: a
// message that names a rank or a shard counts only from the daemon whose key it is. Without keys,
// lets everything in. Each socket has a door, which belongs to the socket's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/counters.h"
#include "common/base/rate_limit.h"
#include "common/net/security.h"
#include "common/net/socket.h"
#include "common/protocol/rounds/message.h"

namespace tern::server {

// In whose name a message speaks; nullopt if it names nobody. A message with a field `rank` speaks
// for that worker, or for that shard if it is a hello of a shard. Exception: a StatePiece names its
// receiver.
std::optional<net::Principal> SpeaksFor(const pb::Envelope& message);

class Door {
 public:
  // Counts in tern_server_refused_total{lane="...",reason="not_yours"}.
  Door(Registry& registry, uint32_t lane);

  // Whether the message may go on to the state machine. If not: counts and logs it, at most one
  // line a second.
  bool LetsIn(const net::ReceivedMessage& received);
  // The answer to a message that may not: its sender is told once, in answer to its hello.
  static std::optional<protocol::Message> AnswerTo(const net::ReceivedMessage& received);

 private:
  Counter& num_refused_;
  RateLimiter log_limiter_{1, std::chrono::seconds(1)};
};

}  // namespace tern::server
