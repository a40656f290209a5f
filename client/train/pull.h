// Pulls the parameters that servers hold.
#pragma once

#include "client/train/algorithm.h"
#include "common/base/status.h"

namespace tern::client {

// Writes the servers' current weights (or their moving average) into w. If the servers send
// changes, w must be what this worker holds, or they send the weights whole.
Status Pull(const Context& context, float* w, bool average);

}  // namespace tern::client
