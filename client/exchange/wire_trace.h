// Shows in a trace (common/base/trace.h) how long messages of this worker are on their way: from
// the time when a contribution is given to a socket until its answer is there. Belongs to the net
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "common/base/trace.h"
#include "common/protocol/rounds/exchange.h"

namespace tern::client {

class WireTrace {
 public:
  // Call before a message is given to a socket. Remembers a push or scalers that the worker sends
  // for the first time.
  void OnSend(const pb::Envelope& head);
  void OnAnswer(const protocol::Exchange::Delivery& answer);
  // Forgets what has no answer yet, because it will not be answered.
  void DropUnanswered() { sent_at_.clear(); }

 private:
  // By cell, and the number of the exchange; a pull has number 0.
  std::map<std::pair<protocol::Cell, uint64_t>, Time> sent_at_;
};

}  // namespace tern::client
