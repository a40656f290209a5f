// Local response normalization across channels (Krizhevsky et al. 2012). x is the input, y the
// output, and c a channel of a pixel. All sums are over the channels j of this pixel in
// [c - size / 2, c + size / 2]:
//
//   s_c  = k + alpha / size * sum of x_j^2
//   y_c  = x_c s_c^-beta
//   dx_c = dy_c s_c^-beta - 2 alpha beta / size * x_c * sum of dy_j x_j s_j^(-beta - 1)
#pragma once

#include <cstddef>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

// The constants of the equations.
struct LrnRule {
  size_t size = 5;  // an odd number of channels
  float alpha = 1e-4f, beta = 0.75f, k = 1;
};
// The shape of one image: [pixels, channels] or, if `is_blocked`, [channels / 16, pixels, 16].
struct LrnImage {
  size_t channels = 0, pixels = 0;
  bool is_blocked = false;
};

// LrnForward and LrnBackward process one image on a CPU.
void LrnForward(const float* x, const LrnImage& image, const LrnRule& rule, float* y);
// `dx` may be the same array as `dy`.
void LrnBackward(const float* x, const float* dy, const LrnImage& image, const LrnRule& rule,
                 float* dx);

// The constants of the equations, as the GPU gets them.
struct DeviceLrn {
  uint32_t size = 5;
  float alpha = 0, beta = 0, k = 0;
};
// The functions ...OnDevice process arrays [pixels, channels] on a GPU.
[[nodiscard]] int LrnForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                     uint64_t pixels, uint32_t channels, const DeviceLrn& rule,
                                     void* y);
// `dx` must not be the same array as `dy`.
[[nodiscard]] int LrnBackwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                      const void* dy, uint64_t pixels, uint32_t channels,
                                      const DeviceLrn& rule, void* dx);

}  // namespace tern::kernels
