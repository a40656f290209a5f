// Convolutions on a GPU in plain loops, for shapes for which no library has a fast kernel; and
// functions for all convolutions: conversions of weights, and sums. Images are [n, h, w, c]
// (device_images.h).
#pragma once

#include <cstdint>

#include "kernels/nn/column_sums.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

// Converts weights from the layout of the parameters, [outputs, inputs, taps] in float, to
// [outputs, taps, inputs] in the type of the images. `outputs` is the number of output channels,
// `inputs` the number of input channels of a group, and `taps` the number of elements of the
// window. FromKernelOnDevice converts a gradient back and divides it by the loss scale.
[[nodiscard]] int ToKernelOnDevice(DeviceStream stream, const float* weights, uint32_t outputs,
                                   uint32_t inputs, uint32_t taps, DeviceType type, void* to);
[[nodiscard]] int FromKernelOnDevice(DeviceStream stream, DeviceType type, const void* from,
                                     uint32_t outputs, uint32_t inputs, uint32_t taps,
                                     const DeviceStep* step, float* gradient);
// Direct convolution with a bias (may be null) and a ReLU (if `has_relu`), and the gradients of its
// input and of its weights. Weights and their gradients are in the layout of ToKernelOnDevice.
[[nodiscard]] int ConvForwardOnDevice(DeviceStream stream, DeviceType type,
                                      const DeviceSlide& slide, uint32_t groups, const void* x,
                                      const void* weight, const void* bias, bool has_relu, void* y);
[[nodiscard]] int ConvBackwardDataOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceSlide& slide, uint32_t groups,
                                           const void* dy, const void* weight, void* dx);
[[nodiscard]] int ConvBackwardWeightsOnDevice(DeviceStream stream, DeviceType type,
                                              const DeviceSlide& slide, uint32_t groups,
                                              const void* x, const void* dy, void* weight_gradient);

// Sets sums[c] to the sum of x[row, c] over all rows, divided by the loss scale, which is the
// gradient of a bias.
[[nodiscard]] int ColumnSumsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                     uint64_t rows, uint32_t columns, const DeviceStep* step,
                                     const ColumnWorkspace& workspace, float* sums);

}  // namespace tern::kernels
