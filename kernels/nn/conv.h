// Convolutions on a GPU, for shapes for which no library has a fast kernel.
#pragma once

#include <cstdint>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// Converts weights from the arena's layout, [out.c, in.c / groups, kernel, kernel] in float, to
// [out.c, kernel, kernel, in.c / groups] in the images' type. FromKernelOnDevice converts the
// gradient back and divides it by the loss scale.
[[nodiscard]] int ToKernelOnDevice(DeviceStream stream, const float* weights, uint32_t outputs,
                                   uint32_t inputs, uint32_t taps, DeviceType type, void* to);
[[nodiscard]] int FromKernelOnDevice(DeviceStream stream, DeviceType type, const void* from,
                                     uint32_t outputs, uint32_t inputs, uint32_t taps,
                                     const DeviceStep* step, float* gradient);
// Direct convolution in plain loops, for shapes for which no library has a fast kernel. `bias` may
// be null.
[[nodiscard]] int ConvForwardOnDevice(DeviceStream stream, DeviceType type,
                                      const DeviceSlide& slide, uint32_t groups, const void* x,
                                      const void* weight, const void* bias, bool relu, void* y);
[[nodiscard]] int ConvBackwardDataOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceSlide& slide, uint32_t groups,
                                           const void* dy, const void* weight, void* dx);
[[nodiscard]] int ConvBackwardWeightsOnDevice(DeviceStream stream, DeviceType type,
                                              const DeviceSlide& slide, uint32_t groups,
                                              const void* x, const void* dy, void* weight);

// sums[c] = sum over rows of x[row, c], divided by the loss scale: the gradient of a bias.
// `partial`: workspace of 2 * columns * PartialsOf(rows).
[[nodiscard]] int ColumnSumsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                     uint64_t rows, uint32_t columns, const DeviceStep* step,
                                     double* partial, float* sums);

}  // namespace tern::kernels
