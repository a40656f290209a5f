// Layers that work element by element, and changes of layout and type: the ReLU on a CPU, which the
// caller's threads share, and all of them on a GPU. Images are [n, h, w, c] (device_images.h).
#pragma once

#include <cstdint>

#include "kernels/codes/philox.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

// Computes y = min(max(x, 0), upper), where NaN stays NaN. y may be x.
void ReluForward(const float* x, uint64_t n, float upper, float* y);
// The same on a GPU.
[[nodiscard]] int ReluForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                      uint64_t n, float upper, void* y);
// Computes dx = dy where 0 < y < upper, and 0 elsewhere. dx may be dy.
[[nodiscard]] int ReluBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y,
                                       const void* dy, uint64_t n, float upper, void* dx);
// Computes y = x P(X <= x) for a normal X. y may be x.
[[nodiscard]] int GeluForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                      uint64_t n, void* y);
// Computes dx = dy d(x P(X <= x)) / dx. dx may be dy.
[[nodiscard]] int GeluBackwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                       const void* dy, uint64_t n, void* dx);
// Computes y = factor x. y may be x.
[[nodiscard]] int ScaleOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t n,
                                float factor, void* y);
// Computes y = a + b or, if `relu`, y = max(0, a + b). y may be a or b.
[[nodiscard]] int AddOnDevice(DeviceStream stream, DeviceType type, const void* a, const void* b,
                              uint64_t n, bool relu, void* y);
// Sets y to 0 with probability `rate` (rounded to a multiple of 2^-16), and else to x / (1 - rate).
// The random number of an element is a function of `key`, whose round is replaced by step->step,
// and of the element's index in [n, c, h, w]. So the same call with a gradient as x is the backward
// pass. y may be x.
[[nodiscard]] int DropoutOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                  const DeviceImages& images, const NoiseKey& key,
                                  const DeviceStep* step, float rate, void* y);

// Converts images from [n, c, h, w] to [n, h, w, c], and back. The pixels of y have `y_channels`
// channels, c or more, of which those after the first c are 0.
[[nodiscard]] int ToChannelsLastOnDevice(DeviceStream stream, DeviceType from, const void* x,
                                         const DeviceImages& images, uint32_t y_channels,
                                         DeviceType to, void* y);
[[nodiscard]] int ToChannelsFirstOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                          const DeviceImages& images, void* y);
// A range of the channels of each pixel: it begins at channel `first` of the `per_pixel` channels
// that a pixel has.
struct DeviceChannels {
  uint32_t first = 0, per_pixel = 0;
};
// Copies `count` channels of each pixel of x, from the range `from`, to y, to the range `to`.
[[nodiscard]] int CopyChannelsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                       const DeviceChannels& from, uint64_t pixels, uint32_t count,
                                       const DeviceChannels& to, void* y);
// FromFloatsOnDevice converts n floats to elements of the given type, ToFloatsOnDevice back.
[[nodiscard]] int FromFloatsOnDevice(DeviceStream stream, const float* x, uint64_t n,
                                     DeviceType type, void* y);
[[nodiscard]] int ToFloatsOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t n,
                                   float* y);
// Sets *found to 1 if some x[i] is infinite or NaN; otherwise does not change *found.
[[nodiscard]] int FindNotFiniteOnDevice(DeviceStream stream, const float* x, uint64_t n,
                                        uint32_t* found);

}  // namespace tern::kernels
