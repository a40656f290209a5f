// Layers that work element by element, and changes of layout and type, on a GPU.
#pragma once

#include <cstdint>

#include "kernels/codes/philox.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

// y = min(max(x, 0), upper); y may be x.
[[nodiscard]] int ReluForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                      uint64_t n, float upper, void* y);
// dx = dy where 0 < y < upper; dx may be dy.
[[nodiscard]] int ReluBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y,
                                       const void* dy, uint64_t n, float upper, void* dx);
// y = relu?(a + b); y may be either.
[[nodiscard]] int AddOnDevice(DeviceStream stream, DeviceType type, const void* a, const void* b,
                              uint64_t n, bool relu, void* y);
// y = 0 with probability rate (to 2^-16), else x / (1 - rate). Draws from `key` in the round
// step->step, by the element's index in [n, c, h, w]. The same call serves gradients; y may be x.
[[nodiscard]] int DropoutOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                  const DeviceImages& images, const NoiseKey& key,
                                  const DeviceStep* step, float rate, void* y);

// [n, c, h, w] to [n, h, w, c], and back.
[[nodiscard]] int ToChannelsLastOnDevice(DeviceStream stream, DeviceType from, const void* x,
                                         const DeviceImages& images, DeviceType to, void* y);
[[nodiscard]] int ToChannelsFirstOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                          const DeviceImages& images, void* y);
// Copies `count` channels of each pixel, from channel from.first of the from.of channels of x to
// channel to.first of the to.of channels of y.
struct DeviceChannels {
  uint32_t first = 0, of = 0;
};
[[nodiscard]] int CopyChannelsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                       const DeviceChannels& from, uint64_t pixels, uint32_t count,
                                       const DeviceChannels& to, void* y);
[[nodiscard]] int FromFloatsOnDevice(DeviceStream stream, const float* x, uint64_t n,
                                     DeviceType type, void* y);
[[nodiscard]] int ToFloatsOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t n,
                                   float* y);
// Sets *found to 1 if some x[i] is infinite or NaN; else leaves it.
[[nodiscard]] int FindNotFiniteOnDevice(DeviceStream stream, const float* x, uint64_t n,
                                        uint32_t* found);

}  // namespace tern::kernels
