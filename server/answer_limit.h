// Limits a server's answers to peers that do not belong to the job. ZeroMQ keeps every answer that
// a peer does not read, so a stranger that only sends could make the server's memory grow.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/rate_limit.h"
#include "common/net/socket.h"

namespace tern::server {

class AnswerLimit {
 public:
  // `lane`: the number of the server's socket, for the metric of answers that were not sent.
  AnswerLimit(Registry& registry, uint32_t lane);
  // Whether the server may answer this peer now: 16 times at once, and then once a second. With
  // very many peers at once, only those that were known first are answered.
  bool MayAnswer(net::PeerId peer, Time now);

 private:
  std::unordered_map<net::PeerId, RateLimiter> limiters_;
  Counter& dropped_;
};

}  // namespace tern::server
