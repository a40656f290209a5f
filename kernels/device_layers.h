// The layers' mathematics on a GPU: images lie channels last, [n, h, w, c]. Launches as in
// device.h: in order on their stream, all arrays in device memory, a cudaError_t returned. Sums are
// taken in an order that does not depend on the device: two runs give the same bits.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace tern::kernels {

// What images and their gradients are kept in. Arithmetic is in float whatever that is; parameters,
// their gradients and statistics are floats.
enum class DeviceType : uint8_t { kFloat, kBfloat, kHalf };
inline size_t BytesOf(DeviceType type) { return type == DeviceType::kFloat ? 4 : 2; }

struct PixelDraws;

// What a step is taken with, on the device, so that launches stay the same from step to step.
struct DeviceStep {
  uint64_t step = 0;  // which draws dropout
  uint32_t used = 0;  // samples that count
  // The batch, where images come as bytes (pixels.h).
  const uint8_t* bytes = nullptr;
  const PixelDraws* draws = nullptr;
  // Gradients of images are so many times as large as they are: those of parameters are not.
  float loss_scale = 1, inverse_scale = 1;
};

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

// Weights [out.c, kernel, kernel, in.c / groups] in the images' type: of those in the arena, which
// lie [out.c, in.c / groups, kernel, kernel]; and the gradient's way back, which undoes the loss's
// scale.
[[nodiscard]] int ToKernelOnDevice(DeviceStream stream, const float* weights, uint32_t outputs,
                                   uint32_t inputs, uint32_t taps, DeviceType type, void* to);
[[nodiscard]] int FromKernelOnDevice(DeviceStream stream, DeviceType type, const void* from,
                                     uint32_t outputs, uint32_t inputs, uint32_t taps,
                                     const DeviceStep* step, float* gradient);
// Every sum by itself, in plain loops: for what no library has a fast kernel for. `bias` may be
// null.
[[nodiscard]] int ConvForwardOnDevice(DeviceStream stream, DeviceType type,
                                      const DeviceSlide& slide, uint32_t groups, const void* x,
                                      const void* weight, const void* bias, bool relu, void* y);
[[nodiscard]] int ConvBackwardDataOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceSlide& slide, uint32_t groups,
                                           const void* dy, const void* weight, void* dx);
[[nodiscard]] int ConvBackwardWeightsOnDevice(DeviceStream stream, DeviceType type,
                                              const DeviceSlide& slide, uint32_t groups,
                                              const void* x, const void* dy, void* weight);

// Sums of columns are taken in parts: so many a column.
uint32_t PartialsOf(uint64_t rows);
// sums[c] = sum over rows of x[row, c], the loss's scale undone: the gradient of a bias. `partial`:
// room for 2 * columns * PartialsOf(rows).
[[nodiscard]] int ColumnSumsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                     uint64_t rows, uint32_t columns, const DeviceStep* step,
                                     double* partial, float* sums);

// winner: which element of the window won, row by row; of equals the first.
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

// y = min(max(x, 0), upper); y may be x.
[[nodiscard]] int ReluForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                      uint64_t n, float upper, void* y);
// dx = dy where 0 < y < upper; dx may be dy.
[[nodiscard]] int ReluBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y,
                                       const void* dy, uint64_t n, float upper, void* dx);
// y = relu?(a + b); y may be either.
[[nodiscard]] int AddOnDevice(DeviceStream stream, DeviceType type, const void* a, const void* b,
                              uint64_t n, bool relu, void* y);
// y = 0 with chance rate (to 2^-16), else x / (1 - rate): draws of `key` in the round step->step,
// by the element's place in [n, c, h, w]. The same of gradients; y may be x.
[[nodiscard]] int DropoutOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                  const DeviceImages& images, const NoiseKey& key,
                                  const DeviceStep* step, float rate, void* y);

// [n, c, h, w] to [n, h, w, c], and back.
[[nodiscard]] int ToChannelsLastOnDevice(DeviceStream stream, DeviceType from, const void* x,
                                         const DeviceImages& images, DeviceType to, void* y);
[[nodiscard]] int ToChannelsFirstOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                          const DeviceImages& images, void* y);
// Channels [0, count) of the one to the other, each from its own first one on.
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
// *found = 1 if some x[i] is infinite or no number; else it stays.
[[nodiscard]] int FindNotFiniteOnDevice(DeviceStream stream, const float* x, uint64_t n,
                                        uint32_t* found);

// Batch norm, as kernels/batch_norm.h has it, over rows of channels.
struct DeviceNorm {
  uint64_t rows = 0;
  uint32_t channels = 0;
  double epsilon = 0, momentum = 0;
  bool relu = false;  // behind it
};
// A number a channel each, but `partial`: 2 * PartialsOf(rows) of them, in double. `mean`, `scale`
// and `shift`, and the `sums` below, are at multiples of 16 bytes.
struct DeviceNormState {
  const float *gamma = nullptr, *beta = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;
  float *mean = nullptr, *scale = nullptr, *shift = nullptr, *inverse = nullptr;
  double* partial = nullptr;
};
// y = relu?(scale x + shift + r); `r` may be null. In training the batch's moments count, and the
// running ones follow them.
[[nodiscard]] int BatchNormForwardOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceNorm& norm, const DeviceNormState& state,
                                           bool training, const void* x, const void* r, void* y);
// What the gradient of a norm is taken of. Where something was added, so that its gradient is
// wanted: g = dy where y > 0 goes to `g`, which may be dy. Else both are null.
struct DeviceNormBack {
  const void *x = nullptr, *dy = nullptr;
  const void* y = nullptr;
  void* g = nullptr;
};
// dx may be dy or g. The gradients of gamma and beta are without the loss's scale. `sums`: room for
// two numbers a channel.
[[nodiscard]] int BatchNormBackwardOnDevice(DeviceStream stream, DeviceType type,
                                            const DeviceNorm& norm, const DeviceNormState& state,
                                            const DeviceNormBack& back, const DeviceStep* step,
                                            float* sums, void* dx, float* gamma_gradient,
                                            float* beta_gradient);

// kernels/lrn.h. dx may not be dy.
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

// Each of `images` rows of n elements to mean 0 and deviation 1 (net.proto); scale: 1 / d.
[[nodiscard]] int StandardizeForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                             uint32_t images, uint64_t n, void* y, float* scale);
[[nodiscard]] int StandardizeBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y,
                                              const void* dy, const float* scale, uint32_t images,
                                              uint64_t n, void* dx);

// What one row of scores is worth.
struct DeviceLoss {
  double loss;
  uint32_t place;  // how many scores come before the label's
  uint32_t unused;
};
// worker/engine/softmax_loss.h, row by row. `gradient`, of the scaled loss, may be null.
[[nodiscard]] int SoftmaxLossOnDevice(DeviceStream stream, DeviceType type, const void* scores,
                                      const uint32_t* labels, uint32_t rows, uint32_t classes,
                                      float smoothing, const DeviceStep* step, DeviceLoss* losses,
                                      void* gradient);

}  // namespace tern::kernels
