// The layers' mathematics on a GPU. Images are stored channels last, [n, h, w, c]. As in device.h:
// launches are ordered on their stream, all arrays are in device memory, functions return a
// cudaError_t. Sums are taken in an order that does not depend on the device: two runs give the
// same bits.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace tern::kernels {

// How images and their gradients are stored. Arithmetic is always in float; parameters, their
// gradients and statistics are floats.
enum class DeviceType : uint8_t { kFloat, kBfloat, kHalf };
inline size_t BytesOf(DeviceType type) { return type == DeviceType::kFloat ? 4 : 2; }

struct PixelDraws;

// What changes from step to step. It is in device memory, so that the launches stay the same.
struct DeviceStep {
  uint64_t step = 0;  // dropout draws by it
  uint32_t used = 0;  // samples that count
  // The batch, where images come as bytes (pixels.h).
  const uint8_t* bytes = nullptr;
  const PixelDraws* draws = nullptr;
  // Gradients of images are multiplied by loss_scale; gradients of parameters are scaled back.
  float loss_scale = 1, inverse_scale = 1;
};

struct DeviceImages {
  uint32_t n = 0, h = 0, w = 0, c = 0;
  TERN_HOST_DEVICE uint64_t pixels() const { return uint64_t{n} * h * w; }
  TERN_HOST_DEVICE uint64_t size() const { return pixels() * c; }
};

// One axis of a window; `pad` zeros before the image.
struct DeviceAxis {
  uint32_t kernel = 1, stride = 1, dilation = 1, pad = 0;
};
struct DeviceWindow {
  DeviceAxis rows, columns;
};

// A window that slides over `in` and makes `out`.
struct DeviceSlide {
  DeviceImages in, out;
  DeviceWindow window;
};

// Converts weights from the arena's layout, [out.c, in.c / groups, kernel, kernel] in float, to
// [out.c, kernel, kernel, in.c / groups] in the images' type, and the gradient back, which also
// undoes the loss's scale.
[[nodiscard]] int ToKernelOnDevice(DeviceStream stream, const float* weights, uint32_t outputs,
                                   uint32_t inputs, uint32_t taps, DeviceType type, void* to);
[[nodiscard]] int FromKernelOnDevice(DeviceStream stream, DeviceType type, const void* from,
                                     uint32_t outputs, uint32_t inputs, uint32_t taps,
                                     const DeviceStep* step, float* gradient);
// Direct convolution in plain loops, for shapes for which no library has a fast kernel. `bias` may
// be null.
[[nodiscard]] int ConvForwardOnDevice(DeviceStream stream, DeviceType type,
                                      const DeviceSlide& slide, uint32_t groups, const void* x,
                                      const void* weight, const void* bias, bool relu, void* y);
[[nodiscard]] int ConvBackwardDataOnDevice(DeviceStream stream, DeviceType type,
                                           const DeviceSlide& slide, uint32_t groups,
                                           const void* dy, const void* weight, void* dx);
[[nodiscard]] int ConvBackwardWeightsOnDevice(DeviceStream stream, DeviceType type,
                                              const DeviceSlide& slide, uint32_t groups,
                                              const void* x, const void* dy, void* weight);

// The number of partial sums of a column.
uint32_t PartialsOf(uint64_t rows);
// sums[c] = sum over rows of x[row, c], with the loss's scale undone: the gradient of a bias.
// `partial`: room for 2 * columns * PartialsOf(rows).
[[nodiscard]] int ColumnSumsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                     uint64_t rows, uint32_t columns, const DeviceStep* step,
                                     double* partial, float* sums);

// winner: which element of the window is the maximum, in row order; of equal ones the first.
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
// y = 0 with probability rate (to 2^-16), else x / (1 - rate). Draws from `key` in the round
// step->step, by the element's place in [n, c, h, w]. The same call serves gradients; y may be x.
[[nodiscard]] int DropoutOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                  const DeviceImages& images, const NoiseKey& key,
                                  const DeviceStep* step, float rate, void* y);

// [n, c, h, w] to [n, h, w, c], and back.
[[nodiscard]] int ToChannelsLastOnDevice(DeviceStream stream, DeviceType from, const void* x,
                                         const DeviceImages& images, DeviceType to, void* y);
[[nodiscard]] int ToChannelsFirstOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                          const DeviceImages& images, void* y);
// Copies `count` channels of each pixel: from those of x at from.first of from.of to those of y at
// to.first of to.of.
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

// Batch norm (kernels/batch_norm.h) over rows of channels.
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
// The inputs of a norm's backward pass. Where the forward pass added something, which needs a
// gradient too, g = dy where y > 0 is written to `g`, which may be dy. Else both are null.
struct DeviceNormBack {
  const void *x = nullptr, *dy = nullptr;
  const void* y = nullptr;
  void* g = nullptr;
};
// dx may be dy or g. The loss's scale is undone in the gradients of gamma and beta. `sums`: room
// for two numbers per channel.
[[nodiscard]] int BatchNormBackwardOnDevice(DeviceStream stream, DeviceType type,
                                            const DeviceNorm& norm, const DeviceNormState& state,
                                            const DeviceNormBack& back, const DeviceStep* step,
                                            float* sums, void* dx, float* gamma_gradient,
                                            float* beta_gradient);

// The formulas are in kernels/lrn.h. dx may not be dy.
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

// Standardizes each of `images` rows of n elements to mean 0 and deviation 1 (net.proto). scale[i]:
// what row i was multiplied by.
[[nodiscard]] int StandardizeForwardOnDevice(DeviceStream stream, DeviceType type, const void* x,
                                             uint32_t images, uint64_t n, void* y, float* scale);
[[nodiscard]] int StandardizeBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y,
                                              const void* dy, const float* scale, uint32_t images,
                                              uint64_t n, void* dx);

// The result of one row of scores.
struct DeviceLoss {
  double loss;
  uint32_t place;  // how many scores rank before the label's
  uint32_t unused;
};
// softmax_loss of worker/engine/softmax_loss.h, row by row. `gradient` is that of the scaled loss;
// it may be null.
[[nodiscard]] int SoftmaxLossOnDevice(DeviceStream stream, DeviceType type, const void* scores,
                                      const uint32_t* labels, uint32_t rows, uint32_t classes,
                                      float smoothing, const DeviceStep* step, DeviceLoss* losses,
                                      void* gradient);

}  // namespace tern::kernels
