// Pulls the parameters that servers hold.
#pragma once

#include "common/base/status.h"
#include "worker/train/algorithm.h"

namespace tern::train {

// Writes the servers' current weights (or their moving average) into w. If the servers send
// changes, w must be what this worker holds, or they send the weights whole.
Status Pull(const Context& context, float* w, bool average);

}  // namespace tern::train
