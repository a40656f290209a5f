// Which batch norms of a net share launches with their neighbours. A batch norm in training reads
// its input twice: for the moments, and to normalize. If the convolution before it adds up its
// output's channels while it has them in registers, the norm reads them once. If the convolution
// behind it, and nothing else, reads the norm's output after a ReLU, that convolution can compute
// this output from the norm's input while it reads it; the norm then only computes scale and shift
// of each channel. On the way back, that convolution can apply the ReLU's mask to the gradient, and
// add up what the norm's gradients need, before it writes the gradient. Only for fp16 cuDNN has
// engines for this that it need not compile first. Internal to the engine.
#pragma once

#include <functional>
#include <vector>

#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/specs.h"

namespace tern::engine::cuda {

// Returns whether the convolution library can compute a pass.
using HasPlan = std::function<bool(const ConvShape& shape, ConvPass pass)>;

// How many batch norms take their sums from the convolution before them, how many leave their
// output to the one behind them, and how many of these also the sums of the gradient.
struct NormFusions {
  uint32_t sums = 0, outputs = 0, gradients = 0;
};
// Sets LayerSpec::has_sums of each convolution whose output only a batch norm in training reads,
// and LayerSpec::leaves_output and leaves_gradient of each batch norm in training whose output,
// after a ReLU, only a convolution reads; each if the library has plans for that, and the
// convolution is one of images in fp16, without a bias, a ReLU or groups. `stored_channels`: how
// many channels the net's images have in memory (stored_channels.h).
NormFusions FuseNorms(uint32_t stored_channels, const HasPlan& has_plan,
                      std::vector<PlannedLayer>* layers);

}  // namespace tern::engine::cuda
