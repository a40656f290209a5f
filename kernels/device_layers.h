// The layers' mathematics on a GPU: images lie channels last, [n, h, w, c]. Launches as in
// device.h: in order on their stream, all arrays in device memory, a cudaError_t returned. Sums are
// taken in an order that does not depend on the device: two runs give the same bits.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace tern::kernels {

struct DeviceImages {
  uint32_t n = 0, h = 0, w = 0, c = 0;
  TERN_HOST_DEVICE uint64_t pixels() const { return uint64_t{n} * h * w; }
  TERN_HOST_DEVICE uint64_t size() const { return pixels() * c; }
};

// One axis of a window, and the zeros before the image.
struct DeviceAxis {
  uint32_t kernel = 1, stride = 1, dilation = 1, pad = 0;
};
struct DeviceWindow {
  DeviceAxis rows, columns;
};

// What goes in and what comes out.
struct DeviceSlide {
  DeviceImages in, out;
  DeviceWindow window;
};

// Weights [out.c, in.c / groups, kernel, kernel], as they lie in the arena. Every sum by itself, in
// plain loops: for what no library has a fast kernel for. `bias` may be null.
[[nodiscard]] int ConvForwardOnDevice(DeviceStream stream, const DeviceSlide& slide,
                                      uint32_t groups, const float* x, const float* weight,
                                      const float* bias, bool relu, float* y);
[[nodiscard]] int ConvBackwardDataOnDevice(DeviceStream stream, const DeviceSlide& slide,
                                           uint32_t groups, const float* dy, const float* weight,
                                           float* dx);
[[nodiscard]] int ConvBackwardWeightsOnDevice(DeviceStream stream, const DeviceSlide& slide,
                                              uint32_t groups, const float* x, const float* dy,
                                              float* weight);
// sums[c] = sum over rows of x[row, c]: the gradient of a bias.
[[nodiscard]] int ColumnSumsOnDevice(DeviceStream stream, const float* x, uint64_t rows,
                                     uint32_t columns, float* sums);

// winner: the place in its image, h * in.w + w, of the element that won; of equals the first.
[[nodiscard]] int MaxPoolForwardOnDevice(DeviceStream stream, const DeviceSlide& slide,
                                         const float* x, float* y, uint32_t* winner);
[[nodiscard]] int MaxPoolBackwardOnDevice(DeviceStream stream, const DeviceSlide& slide,
                                          const float* dy, const uint32_t* winner, float* dx);
[[nodiscard]] int AvgPoolForwardOnDevice(DeviceStream stream, const DeviceSlide& slide,
                                         bool include_padding, const float* x, float* y);
[[nodiscard]] int AvgPoolBackwardOnDevice(DeviceStream stream, const DeviceSlide& slide,
                                          bool include_padding, const float* dy, float* dx);

// y = min(max(x, 0), upper); y may be x.
[[nodiscard]] int ReluForwardOnDevice(DeviceStream stream, const float* x, uint64_t n, float upper,
                                      float* y);
// dx = dy where 0 < y < upper; dx may be dy.
[[nodiscard]] int ReluBackwardOnDevice(DeviceStream stream, const float* y, const float* dy,
                                       uint64_t n, float upper, float* dx);
// y = relu?(a + b); y may be either.
[[nodiscard]] int AddOnDevice(DeviceStream stream, const float* a, const float* b, uint64_t n,
                              bool relu, float* y);
// y = a b; y may be either.
[[nodiscard]] int MultiplyOnDevice(DeviceStream stream, const float* a, const float* b, uint64_t n,
                                   float* y);
// y = x factors; factors = 0 with chance rate (to 2^-16), else 1 / (1 - rate): draws of `key` by
// the element's place in [n, c, h, w].
[[nodiscard]] int DropoutOnDevice(DeviceStream stream, const float* x, const DeviceImages& images,
                                  const NoiseKey& key, float rate, float* factors, float* y);

// [n, c, h, w] to [n, h, w, c], and back.
[[nodiscard]] int ToChannelsLastOnDevice(DeviceStream stream, const float* x,
                                         const DeviceImages& images, float* y);
[[nodiscard]] int ToChannelsFirstOnDevice(DeviceStream stream, const float* x,
                                          const DeviceImages& images, float* y);
// Channels [0, count) of the one to the other, each from its own first one on.
struct DeviceChannels {
  uint32_t first = 0, of = 0;
};
[[nodiscard]] int CopyChannelsOnDevice(DeviceStream stream, const float* x,
                                       const DeviceChannels& from, uint64_t pixels, uint32_t count,
                                       const DeviceChannels& to, float* y);

// Batch norm, as kernels/batch_norm.h has it, over rows of channels.
struct DeviceNorm {
  uint64_t rows = 0;
  uint32_t channels = 0;
  double epsilon = 0, momentum = 0;
};
// A number a channel each, but `partial`: kNormPartials of them, in double.
struct DeviceNormState {
  const float *gamma = nullptr, *beta = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;
  float *mean = nullptr, *scale = nullptr, *shift = nullptr, *inverse = nullptr;
  double* partial = nullptr;
};
constexpr uint32_t kNormPartials = 64;
// y = relu?(scale x + shift + r); `r` may be null. In training the batch's moments count, and the
// running ones follow them.
[[nodiscard]] int BatchNormForwardOnDevice(DeviceStream stream, const DeviceNorm& norm,
                                           const DeviceNormState& state, bool training,
                                           const float* x, const float* r, bool relu, float* y);
// g = dy where y > 0 (without ReLU: dy) goes to `g` (may be dy); dx may be g.
[[nodiscard]] int BatchNormBackwardOnDevice(DeviceStream stream, const DeviceNorm& norm,
                                            const DeviceNormState& state, const float* x,
                                            const float* y, const float* dy, bool relu, float* g,
                                            float* dx, float* gamma_gradient, float* beta_gradient);

// kernels/lrn.h. dx may not be dy.
struct DeviceLrn {
  uint32_t size = 5;
  float alpha = 0, beta = 0, k = 0;
};
[[nodiscard]] int LrnForwardOnDevice(DeviceStream stream, const float* x, uint64_t pixels,
                                     uint32_t channels, const DeviceLrn& rule, float* y);
[[nodiscard]] int LrnBackwardOnDevice(DeviceStream stream, const float* x, const float* dy,
                                      uint64_t pixels, uint32_t channels, const DeviceLrn& rule,
                                      float* dx);

// Each of `images` rows of n elements to mean 0 and deviation 1 (net.proto); scale: 1 / d.
[[nodiscard]] int StandardizeForwardOnDevice(DeviceStream stream, const float* x, uint32_t images,
                                             uint64_t n, float* y, float* scale);
[[nodiscard]] int StandardizeBackwardOnDevice(DeviceStream stream, const float* y, const float* dy,
                                              const float* scale, uint32_t images, uint64_t n,
                                              float* dx);

// What one row of scores is worth.
struct DeviceLoss {
  double loss;
  uint32_t place;  // how many scores come before the label's
  uint32_t unused;
};
// worker/engine/softmax_loss.h, row by row. `gradient` may be null.
[[nodiscard]] int SoftmaxLossOnDevice(DeviceStream stream, const float* scores,
                                      const uint32_t* labels, uint32_t rows, uint32_t classes,
                                      uint32_t used, float smoothing, DeviceLoss* losses,
                                      float* gradient);

}  // namespace tern::kernels
