// How many channels the pixels of a net's images have in a GPU's memory. Tensor cores multiply
// eight channels at a time, or four in TF32; of images with another number cuDNN makes a larger
// copy in each pass. So images that only convolutions read get channels of zeros. Internal to the
// engine.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/net.h"
#include "worker/engine/specs.h"

namespace tern::engine::cuda {

// Returns `channels`, the number of channels of the net's input, or the next number that tensor
// cores take.
uint32_t StoredChannels(const std::vector<PlannedLayer>& layers, Precision precision,
                        uint32_t channels);

}  // namespace tern::engine::cuda
