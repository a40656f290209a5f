// Limits a server's answers to peers that do not belong to the job, and how long it listens to
// them. ZeroMQ keeps every answer that a peer does not read, so a stranger that only sends could
// make the server's memory grow; and to read what it sends keeps the server from its work.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/rate_limit.h"
#include "common/net/socket.h"

namespace tern::server {

class AnswerLimit {
 public:
  // Closes the connection of a peer.
  using HangUp = std::function<void(net::PeerId peer)>;
  // `lane`: the number of the server's socket, for the metric of answers that were not sent.
  AnswerLimit(Registry& registry, uint32_t lane, HangUp hang_up);
  // Whether the server may answer a message of this peer now: 16 times at once, and then once a
  // second. Calls `hang_up` for a peer that goes on: after 16 messages without an answer at once,
  // or more than 20 a second in the long run. (A daemon that waits for its rank says hello 10 times
  // a second.) With very many peers at once, only those that were known first are answered.
  bool MayAnswer(net::PeerId peer, Time now);

 private:
  const HangUp hang_up_;
  struct Limits {
    RateLimiter answered, unanswered;
  };
  std::unordered_map<net::PeerId, Limits> limits_;
  Counter& dropped_;
};

}  // namespace tern::server
