// Pooling on a GPU.
#pragma once

#include <cstdint>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// `winner`: for each output, which element of its window is the maximum, counted row by row; of
// equal ones the first.
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
