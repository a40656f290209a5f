// Max and average pooling on a GPU. Images are [n, h, w, c]; x is the input, y the output, dx and
// dy are their gradients. A DeviceSlide has the shapes of x and y, and the window.
#pragma once

#include <cstdint>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// winner[i] is the index of the maximum in the window of output i, counted row by row; the lowest
// index of equal maxima. The forward pass writes it, and the backward pass reads it.
[[nodiscard]] int MaxPoolForwardOnDevice(DeviceStream stream, DeviceType type,
                                         const DeviceSlide& slide, const void* x, void* y,
                                         uint16_t* winner);
[[nodiscard]] int MaxPoolBackwardOnDevice(DeviceStream stream, DeviceType type,
                                          const DeviceSlide& slide, const void* dy,
                                          const uint16_t* winner, void* dx);
// `include_padding`: whether padding counts in the divisor of a mean.
[[nodiscard]] int AvgPoolForwardOnDevice(DeviceStream stream, DeviceType type,
                                         const DeviceSlide& slide, bool include_padding,
                                         const void* x, void* y);
[[nodiscard]] int AvgPoolBackwardOnDevice(DeviceStream stream, DeviceType type,
                                          const DeviceSlide& slide, bool include_padding,
                                          const void* dy, void* dx);

}  // namespace tern::kernels
