// Depthwise convolutions with a window of 3 x 3 on a GPU: channel c of the output is computed from
// channel c of the input alone, so that memory limits the speed, and no matrix product helps.
// Images are [n, h, w, c] (device_images.h), weights and their gradients [c, 3, 3] (weights.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// Whether the functions below can compute a convolution with as many groups: a window of 3 x 3
// without dilation, a stride of 1 or 2 on both axes, at most 2 zeros before the image, and a group
// for each channel.
bool IsDepthwise(const DeviceSlide& slide, uint32_t groups);

// Like the functions of conv.h. All REQUIRE a convolution for which IsDepthwise is true.
[[nodiscard]] int DepthwiseForwardOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceSlide& slide, const void* x,
                                           const void* weight, const void* bias, void* y);
[[nodiscard]] int DepthwiseBackwardDataOnDevice(DeviceStream stream, DeviceType type,
                                                const DeviceSlide& slide, const void* dy,
                                                const void* weight, void* dx);
// The bytes of `workspace`, which need not be initialized.
size_t DepthwiseWorkspaceBytes(DeviceType type, const DeviceSlide& slide);
// Adds in an order that does not depend on the GPU. Two launches.
[[nodiscard]] int DepthwiseBackwardWeightsOnDevice(DeviceStream stream, DeviceType type,
                                                   const DeviceSlide& slide, const void* x,
                                                   const void* dy, void* workspace,
                                                   void* weight_gradient);

}  // namespace tern::kernels
