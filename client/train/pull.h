// Pulls central parameters from the servers. Threads: the compute thread.
#pragma once

#include "client/train/algorithm.h"
#include "common/base/status.h"

namespace tern::client {

// Writes the servers' current weights, or with `average` their moving average, to w; waits for
// them. If the servers send changes (exchange.pull), they are added to w: REQUIRES that w is the
// result of this worker's previous pull, unless the servers send full weights to it.
Status Pull(const Context& context, float* w, bool average);

}  // namespace tern::client
