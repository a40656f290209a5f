// What a server's socket does about messages that are not valid frames.
#pragma once

#include "common/base/clock.h"
#include "common/base/rate_limit.h"
#include "common/net/frame.h"
#include "common/protocol/rounds/message.h"

namespace tern::server {

// Of one socket and its thread.
class FrameRefusals {
 public:
  // Logs the refused frame, no more than a line a second in the long run, because strangers can
  // send any number of them. Returns the answer to its sender; AnswerLimit limits what is sent. A
  // daemon of another wire version has to leave. Every other daemon has sent a valid message that
  // arrived damaged: it has to say hello on a new connection, and to repeat there what has no
  // answer.
  protocol::Message Answer(const net::FrameError& error, Time now);

 private:
  RateLimiter log_limiter_{3, std::chrono::seconds(1)};
};

}  // namespace tern::server
