// Max and average pooling. x is the input, y the output, dx and dy are their gradients. A
// DeviceSlide has the shapes of x and y, and the window, whose dilation must be 1. On a CPU, each
// function processes one image [h, w, c] (`n` of the shapes is not used); the caller runs the
// threads. 16 channels in a block, which are next to each other, are such an image, too. On a GPU,
// each function processes a batch [n, h, w, c]. Both compute the same bits from the same floats,
// except means of 16 elements and more, which a GPU adds up in another order.
#pragma once

#include <cstdint>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// winner[i] is the index of the maximum in the window of output i, counted row by row; the lowest
// index of equal maxima. The maximum of elements with a NaN is NaN, at the highest index of a NaN,
// so that a net that has diverged shows it. The forward pass writes winner[i], and the backward
// pass reads it. `winner` may be null if there is no backward pass.
void MaxPoolForward(const DeviceSlide& slide, const float* x, float* y, uint16_t* winner);
void MaxPoolBackward(const DeviceSlide& slide, const float* dy, const uint16_t* winner, float* dx);
// `include_padding`: whether padding counts in the divisor of a mean.
void AvgPoolForward(const DeviceSlide& slide, bool include_padding, const float* x, float* y);
void AvgPoolBackward(const DeviceSlide& slide, bool include_padding, const float* dy, float* dx);

// The same on a GPU, where `winner` is never null.
[[nodiscard]] int MaxPoolForwardOnDevice(DeviceStream stream, DeviceType type,
                                         const DeviceSlide& slide, const void* x, void* y,
                                         uint16_t* winner);
[[nodiscard]] int MaxPoolBackwardOnDevice(DeviceStream stream, DeviceType type,
                                          const DeviceSlide& slide, const void* dy,
                                          const uint16_t* winner, void* dx);
[[nodiscard]] int AvgPoolForwardOnDevice(DeviceStream stream, DeviceType type,
                                         const DeviceSlide& slide, bool include_padding,
                                         const void* x, void* y);
[[nodiscard]] int AvgPoolBackwardOnDevice(DeviceStream stream, DeviceType type,
                                          const DeviceSlide& slide, bool include_padding,
                                          const void* dy, void* dx);

}  // namespace tern::kernels
