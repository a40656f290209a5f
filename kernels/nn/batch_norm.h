// Batch norm (Ioffe and Szegedy 2015) on rows of channels, in four passes over memory: moments and
// output forward, sums and input gradient backward. An addition before a ReLU, and the ReLU itself,
// are fused. The caller does the threading and adds up the sums of the slabs.
//
// A slab is `rows` rows of `channels` (1 to 16) neighbouring floats, each row `stride` floats
// behind the one before. The input x, an input r that is added before the ReLU (if any), the output
// y and their gradients are slabs of the same form. Arrays with one number per channel have 16
// elements. With x^ = (x - mean) / d, d = sqrt(variance + epsilon):
//
//   scale  = gamma / d
//   shift  = beta - mean scale
//   y      = relu?(scale x + shift + r?)
//   g      = dy where y > 0 (without ReLU: dy)
//   dr     = g
//   dbeta  = sum g
//   dgamma = sum g x^
//   dx     = scale (g - sum g / n - x^ sum(g x^) / n)
#pragma once

#include <cstddef>

#include "kernels/nn/device_images.h"

namespace tern::kernels {

constexpr size_t kNormChannels = 16;  // of a slab, at most

struct Slab {
  size_t rows = 0, stride = 0, channels = 0;
};

// A pivot near the mean preserves precision:
//
//   sum     += x - pivot
//   squares += (x - pivot)^2
void NormMoments(const float* x, const Slab& slab, const float* pivot, float* sum, float* squares);

// Computes y from x and, if not nullptr, r. y may be x or r. `past_caches`: use non-temporal
// stores, for a y too large for the caches; needs a stride that is a multiple of 16 and a y aligned
// to 64 bytes, and is ignored otherwise.
void NormApply(const float* x, const float* r, const Slab& slab, const float* scale,
               const float* shift, bool relu, bool past_caches, float* y);

// How g is derived from dy: if `relu`, g = dy where the output is above 0.
struct NormMask {
  bool relu = false;
  const float* y = nullptr;      // the output, if r was added; otherwise null, and the sign
  const float* scale = nullptr;  // of the output is recomputed from `scale` and `shift`
  const float* shift = nullptr;
};
//   sum     += g
//   product += g (x - mean)
//
// Also writes g to `g` if that is not nullptr (it may be dy).
void NormBackwardSums(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                      const float* mean, float* sum, float* product, float* g);
// dx = scale g + (slope (x - mean) + offset), where
//   slope  = -scale sum(g (x - mean)) / (n d^2)
//   offset = -scale sum(g) / n
// dx may be dy.
void NormBackwardApply(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                       const float* mean, const float* scale, const float* slope,
                       const float* offset, float* dx);

// The size and the constants of a batch norm on a GPU, over rows of channels.
struct DeviceNorm {
  uint64_t rows = 0;
  uint32_t channels = 0;
  double epsilon = 0, momentum = 0;
  bool relu = false;  // a ReLU follows
};
// Arrays with one number per channel, except `partial`: 2 * PartialsOf(rows) per channel, in
// double. `mean`, `scale`, `shift`, and `sums` below, are aligned to 16 bytes.
struct DeviceNormState {
  const float *gamma = nullptr, *beta = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;
  float *mean = nullptr, *scale = nullptr, *shift = nullptr, *inverse = nullptr;
  double* partial = nullptr;
};
// y = relu?(scale x + shift + r); `r` may be null. In training, uses the batch's moments and
// updates the running ones.
[[nodiscard]] int BatchNormForwardOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceNorm& norm, const DeviceNormState& state,
                                           bool training, const void* x, const void* r, void* y);
// The inputs of a norm's backward pass. If the forward pass added an input that needs a gradient
// too, g = dy where y > 0 is written to `g`, which may be dy. Otherwise y and g are null.
struct DeviceNormBack {
  const void *x = nullptr, *dy = nullptr;
  const void* y = nullptr;
  void* g = nullptr;
};
// dx may be dy or g. Gradients of gamma and beta are divided by the loss scale. `sums`: workspace
// of two numbers per channel.
[[nodiscard]] int BatchNormBackwardOnDevice(DeviceStream stream, DeviceType type,
                                            const DeviceNorm& norm, const DeviceNormState& state,
                                            const DeviceNormBack& back, const DeviceStep* step,
                                            float* sums, void* dx, float* gamma_gradient,
                                            float* beta_gradient);

}  // namespace tern::kernels
