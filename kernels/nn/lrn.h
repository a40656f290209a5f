// Local response normalization across channels (Krizhevsky et al. 2012) of one image. All sums are
// over channels j in [c - size / 2, c + size / 2]:
//
//   s_c  = k + alpha / size * sum of x_j^2
//   y_c  = x_c s_c^-beta
//   dx_c = dy_c s_c^-beta - 2 alpha beta / size * x_c * sum of dy_j x_j s_j^(-beta - 1)
#pragma once

#include <cstddef>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

struct LrnRule {
  size_t size = 5;  // odd
  float alpha = 1e-4f, beta = 0.75f, k = 1;
};
// [pixels, channels], or blocked: [channels / 16, pixels, 16].
struct LrnImage {
  size_t channels = 0, pixels = 0;
  bool blocked = false;
};

void LrnForward(const float* x, const LrnImage& image, const LrnRule& rule, float* y);
// dx may be dy.
void LrnBackward(const float* x, const float* dy, const LrnImage& image, const LrnRule& rule,
                 float* dx);

// LrnRule for a GPU. Backward, dx may not be dy there.
struct DeviceLrn {
  uint32_t size = 5;
  float alpha = 0, beta = 0, k = 0;
};
[[nodiscard]] int LrnForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                     uint64_t pixels, uint32_t channels, const DeviceLrn& rule,
                                     void* y);
[[nodiscard]] int LrnBackwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                      const void* dy, uint64_t pixels, uint32_t channels,
                                      const DeviceLrn& rule, void* dx);

}  // namespace tern::kernels
