// What a server's socket does about messages that are not valid frames: it tells the sender and the
// log. Strangers can send any number of them, so both are limited.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/rate_limit.h"
#include "common/net/frame.h"
#include "common/net/socket.h"
#include "common/protocol/rounds/message.h"

namespace tern::server {

// Of one socket and its thread.
class FrameRefusals {
 public:
  // How many answers wait at most for a peer that reads none. A peer is told no more often than
  // once a second.
  static constexpr int kMaxAnswers = 16;

  // Call for each refused frame of `peer`. Logs it, no more than a line a second in the long run.
  // Returns the answer to send; nullopt if the peer was told just now or kMaxAnswers times. A
  // daemon of another wire version has to leave. Every other daemon has sent a valid message that
  // arrived damaged: it has to say hello on a new connection, and to repeat there what has no
  // answer.
  std::optional<protocol::Message> Answer(net::PeerId peer, const net::FrameError& error, Time now);

 private:
  struct Told {
    int num_answers = 0;
    RateLimiter limiter{1, std::chrono::seconds(1)};
  };

  // Beyond this number all peers are forgotten, so that they cost bounded memory.
  static constexpr size_t kMaxPeers = 4096;

  RateLimiter log_limiter_{3, std::chrono::seconds(1)};
  std::unordered_map<net::PeerId, Told> told_;
};

}  // namespace tern::server
