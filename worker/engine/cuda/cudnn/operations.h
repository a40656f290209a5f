// The operations of which cuDNN's graph of a pass of a convolution consists, and the tensors
// between them. Internal to the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "kernels/nn/device_images.h"
#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/cuda/cudnn/descriptor.h"

namespace tern::engine::cuda::cudnn {

// The numbers that identify the tensors of a graph. kBeforeBias is the intermediate result of the
// forward pass before the bias is added; kSums and kSquares are the two halves of ConvData::sums,
// kScale and kShift those of ConvData::norm. kScaled, kShifted and kNormalized are scale x,
// scale x + shift, and what takes the place of x. From kNormInput on: what TakesNormGradient needs.
// kImageGradient is the gradient before it goes through the ReLU, and kCentered to kBiased are the
// steps from the norm's input to its output.
enum TensorUid : int64_t {
  kImagesIn = 1,
  kKernel,
  kImagesOut,
  kBias,
  kBeforeBias,
  kSums,
  kSquares,
  kScale,
  kShift,
  kScaled,
  kShifted,
  kNormalized,
  kNormInput,
  kMean,
  kInverse,
  kGain,
  kNormBias,
  kProducts,
  kGradientSums,
  kUnused,
  kUnused2,
  kUnused3,
  kImageGradient,
  kCentered,
  kDivided,
  kGained,
  kBiased
};

// Whether the graph of a pass has unequal padding before and after the image on an axis.
bool HasUnequalPadding(const kernels::DeviceSlide& slide);
// Makes the operations of a pass, in order: the norm of x, if the pass normalizes it, the
// convolution and, in the forward pass, the bias or the sums of channels; in the pass of the
// gradient of x also what takes it on to g (ConvShape::takes_norm_gradient).
Result<std::vector<Descriptor>> MakeOperations(const ConvShape& shape, ConvPass pass);

}  // namespace tern::engine::cuda::cudnn
