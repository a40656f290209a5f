// The cost of a message on this machine, for `tern predict`: pings between two threads over
// loopback, through the daemons' sockets.
#pragma once

#include "common/base/status.h"

namespace tern::tools {

struct MessageCost {
  double message_s = 0;      // a message without payload, in one direction
  double message_cpu_s = 0;  // its CPU time on each side
  double byte_cpu_s = 0;     // CPU time per byte of payload on each side
  double hop_s = 0;          // from one thread to another through a Channel
};
Result<MessageCost> MeasureMessages();

}  // namespace tern::tools
