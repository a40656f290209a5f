// Pulls the parameters from the servers, in jobs whose servers hold them. Threads: the compute
// thread.
#pragma once

#include "client/train/algorithm.h"
#include "common/base/status.h"

namespace tern::client {

// Asks the servers for their current weights, or with `wants_average` for the moving average of the
// weights, waits for the answers, and writes them to w. If the servers send changes (exchange.pull:
// changes), adds the changes to w: REQUIRES that w is the result of this worker's previous pull,
// unless the servers send full weights to this worker.
Status Pull(const Context& context, float* w, bool wants_average);

}  // namespace tern::client
