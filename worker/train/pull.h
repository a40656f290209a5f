// Asking the servers for the parameters that they hold.
#pragma once

#include "common/base/status.h"
#include "worker/train/algorithm.h"

namespace tern::train {

// The weights (or their moving average) as the servers have them, into w. With changes on the way
// down, w is what this worker holds, or they send the weights whole.
Status Pull(const Context& context, float* w, bool average);

}  // namespace tern::train
