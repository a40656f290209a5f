// Which batch norms of a net share launches with their neighbours. A batch norm in training reads
// its input twice: for the moments, and to normalize. If the convolution before it adds up its
// output's channels while it has them in registers, the norm reads them once. Only for fp16 cuDNN
// has engines for this that it need not compile first. Internal to the engine.
#pragma once

#include <functional>
#include <vector>

#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/specs.h"

namespace tern::engine::cuda {

// Returns whether the convolution library can compute a pass.
using HasPlan = std::function<bool(const ConvShape& shape, ConvPass pass)>;

// Sets LayerSpec::has_sums of each convolution whose output only a batch norm in training reads, if
// the library can add up the channels: of images in fp16, without a bias, a ReLU or groups. Returns
// how many there are. `stored_channels`: how many channels the net's images have in memory
// (stored_channels.h).
uint32_t FuseNorms(uint32_t stored_channels, const HasPlan& has_plan,
                   std::vector<PlannedLayer>* layers);

}  // namespace tern::engine::cuda
