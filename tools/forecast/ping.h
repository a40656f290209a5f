// Measures the cost of a message on this machine, for `tern forecast`: two threads send pings over
// loopback through the same kind of sockets as servers and workers.
#pragma once

#include "common/base/status.h"

namespace tern::tools {

struct MessageCost {
  double message_s = 0;      // Time of a message without payload, in one direction.
  double message_cpu_s = 0;  // CPU time of such a message, on each side.
  double byte_cpu_s = 0;     // CPU time per byte of payload, on each side.
  double hop_s = 0;          // Time to pass an item to another thread through a Channel (a queue).
};
Result<MessageCost> MeasureMessages();

}  // namespace tern::tools
