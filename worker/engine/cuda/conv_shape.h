// The shapes of a net's convolutions and dense layers, as the convolution library takes them.
// Internal to the engine.
#pragma once

#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/layer_spec.h"

namespace tern::engine::cuda {

// How images are stored in a precision.
kernels::DeviceType TypeOf(Precision precision);

// The shape of a layer that is a convolution or a dense layer. A dense layer is the convolution of
// an image of one pixel by a window of one pixel.
ConvShape ConvShapeOf(const LayerSpec& spec);

}  // namespace tern::engine::cuda
