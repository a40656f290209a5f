// Batch norm (Ioffe and Szegedy 2015) in four passes over memory: the forward pass computes
// moments, then the output; the backward pass computes sums, then the input's gradient. A ReLU
// after the norm, and the addition of another input before the ReLU, are part of these passes. On a
// CPU, each function processes one slab; the caller runs the threads and adds the sums of the
// slabs.
//
// A slab is `rows` rows of `channels` (1 to 16) neighbouring floats; each row begins `stride`
// floats after the row before. The input x, the input r that is added before the ReLU, the output y
// and the gradients dx, dr and dy are slabs with the same rows, stride and channels. The arrays
// of a slab with one number per channel have 16 elements. With n elements per channel,
// x^ = (x - mean) / d and d = sqrt(variance + epsilon):
//
//   scale  = gamma / d
//   shift  = beta - mean scale
//   y      = max(0, scale x + shift + r), without the max or the r if the layer has none
//   g      = dy where y > 0, else 0 (without ReLU: dy)
//   dr     = g
//   dbeta  = sum g
//   dgamma = sum g x^
//   dx     = scale (g - sum g / n - x^ sum(g x^) / n)
#pragma once

#include <cstddef>

#include "kernels/nn/column_sums.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

constexpr size_t kNormChannels = 16;  // the most channels of a slab

struct Slab {
  size_t rows = 0, stride = 0, channels = 0;
};

// Adds the moments of each channel, relative to `pivot`; a pivot near the mean preserves precision:
//
//   sum     += x - pivot
//   squares += (x - pivot)^2
void NormMoments(const float* x, const Slab& slab, const float* pivot, float* sum, float* squares);

// Computes y from x and, if not nullptr, r. y may be x or r. With `bypasses_caches`, stores y
// without putting it into the caches, for arrays too large for them; this needs a stride that is a
// multiple of 16 and a y aligned to 64 bytes, and is ignored otherwise.
void NormApply(const float* x, const float* r, const Slab& slab, const float* scale,
               const float* shift, bool has_relu, bool bypasses_caches, float* y);

// How g is derived from dy: if `has_relu`, g = dy where the output is above 0, and else 0; without
// a ReLU, g = dy.
struct NormMask {
  bool has_relu = false;
  const float* y = nullptr;  // the output, if r was added; otherwise null
  // If y is null, the sign of the output is computed again from scale and shift, which must not be
  // null in any case.
  const float* scale = nullptr;
  const float* shift = nullptr;
};
// Adds to the sums of each channel:
//
//   sum     += g
//   product += g (x - mean)
//
// Also writes g to the slab `g` if that is not nullptr; `g` may be `dy`.
void NormBackwardSums(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                      const float* mean, float* sum, float* product, float* g);
// Computes dx = scale g + (slope (x - mean) + offset), where
//   slope  = -scale sum(g (x - mean)) / (n d^2)
//   offset = -scale sum(g) / n
// dx may be dy.
void NormBackwardApply(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                       const float* mean, const float* scale, const float* slope,
                       const float* offset, float* dx);

// The size and the constants of a batch norm on a GPU, whose arrays are [rows, channels].
struct DeviceNorm {
  uint64_t rows = 0;
  uint32_t channels = 0;
  double epsilon = 0;
  double momentum = 0;    // the weight of the batch in the running moments
  bool has_relu = false;  // whether a ReLU follows
  // For the backward pass: whether the forward pass used the running moments, which are constants.
  bool has_constant_moments = false;
};
// Arrays with one number per channel, and memory for sums of columns. `inverse` is 1 / d. `mean`,
// `scale` and `shift` are aligned to 16 bytes.
struct DeviceNormState {
  const float *gamma = nullptr, *beta = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;
  float *mean = nullptr, *scale = nullptr, *shift = nullptr, *inverse = nullptr;
  ColumnWorkspace workspace = {};
  // For the forward pass in training: the sums of x of each channel, and then the sums of x^2, if
  // the launch that wrote x has computed them; else null.
  //
  // The variance is the mean of x^2 minus the mean's square. If the mean is r deviations, rounding
  // exact sums to floats changes the variance by up to (1 + r^2) 1.5 2^-23 of it: 2e-5 at r = 10,
  // 2e-3 at r = 100. Who adds up in floats, as cuDNN does, may add to that. (Sums that
  // BatchNormForwardOnDevice takes itself are of x minus a pivot near the mean, in doubles, and
  // lose nothing of this kind.) fp16, with 11 bits, stores x at r = 100 in steps of 1/16 of a
  // deviation.
  const float* sums = nullptr;
  // For the forward pass in training, if NormalizeOnDevice or a convolution computes y: where the
  // scales of all channels go, and then the shifts, rounded to the type of x; else null. `scale`
  // and `shift` get the same numbers, so that the backward pass finds the same signs. The shift
  // belongs to the rounded scale. A scale by which the mean times the scale exceeds 2^15 is
  // lowered, because fp16 ends at 2^16. With a gamma of 1, fp16 rounds such an x by up to 16
  // deviations. If gamma, beta or the mean is not finite, the scale is 0 and the shift infinite,
  // because the ReLU of who computes y may make 0 of NaN, but not of infinity.
  void* rounded = nullptr;
  // With `rounded`: gain = scale / inverse and bias = shift + mean scale are set, too, with which
  // y = max(0, gain x^ + bias).
  float *gain = nullptr, *bias = nullptr;
};
// The arrays of a norm whose neighbours compute a part of it: one float per channel each, one after
// another. The first six are set by the forward pass (DeviceNormState), `products` and `sums` by
// whoever computes g: the sums of g x^ and of g of each channel. `slope` and `offset` are workspace
// of the backward pass, and `unused` has three arrays that cuDNN sets.
struct NormArrays {
  static constexpr size_t kArrays = 13;
  float *mean, *scale, *shift, *inverse, *gain, *bias, *products, *sums, *slope, *offset, *unused;
};
inline NormArrays NormArraysAt(float* begin, uint32_t channels) {
  const auto array = [&](size_t i) { return begin + i * channels; };
  return {array(0), array(1), array(2), array(3), array(4), array(5),
          array(6), array(7), array(8), array(9), array(10)};
}
// Computes y from x and r; `r` may be null. In training, normalizes with the moments of the batch
// and updates the running moments; otherwise, normalizes with the running moments. If y is null,
// only sets what `state` points to.
[[nodiscard]] int BatchNormForwardOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceNorm& norm, const DeviceNormState& state,
                                           bool is_training, const void* x, const void* r, void* y);
// Computes y = max(0, scale x + shift) of arrays [rows, channels], where `norm` is what the forward
// pass has written to DeviceNormState::rounded.
[[nodiscard]] int NormalizeOnDevice(DeviceStream stream, DeviceType type, uint64_t rows,
                                    uint32_t channels, const void* x, const void* norm, void* y);
// The arrays of the backward pass. If the forward pass added r and applied a ReLU, the backward
// pass reads y, and writes g, which is the gradient of r, to `g`; `g` may be `dy`. Otherwise y and
// g are null. If who computed `dy` went on to g and its sums, `dy` is g, and `products` and `sums`
// are those of NormArrays; else these are null.
struct DeviceNormBackward {
  const void *x = nullptr, *dy = nullptr;
  const void* y = nullptr;
  void* g = nullptr;
  const float *products = nullptr, *sums = nullptr;
};
// Computes the gradients of x, gamma and beta. dx may be dy or g. The gradients of gamma and beta
// are divided by the loss scale. `sums` is memory for intermediate results, two numbers per
// channel, aligned to 16 bytes.
[[nodiscard]] int BatchNormBackwardOnDevice(DeviceStream stream, DeviceType type,
                                            const DeviceNorm& norm, const DeviceNormState& state,
                                            const DeviceNormBackward& arrays,
                                            const DeviceStep* step, float* sums, void* dx,
                                            float* gamma_gradient, float* beta_gradient);

// Goes on from the gradient of a norm's output, which `gradient` has, to g, in its place, and sets
// arrays.products and arrays.sums. `workspace` has ColumnWorkspaceBytes bytes, which need not be
// initialized.
[[nodiscard]] int NormGradientOnDevice(DeviceStream stream, DeviceType type, uint64_t rows,
                                       uint32_t channels, const void* x, const NormArrays& arrays,
                                       void* workspace, void* gradient);

}  // namespace tern::kernels
