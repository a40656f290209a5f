// What a message costs on this machine, for `tern predict`: pings between two threads over
// loopback, through the sockets that the daemons use.
#pragma once

#include "common/base/status.h"

namespace tern::tools {

struct MessageCost {
  double message_s = 0;      // without payload, one way
  double message_cpu_s = 0;  // of that, work, on each side
  double byte_cpu_s = 0;     // work for each byte of a payload, on each side
  double hop_s = 0;          // from one thread to another through a Channel
};
Result<MessageCost> MeasureMessages();

}  // namespace tern::tools
