// Standardization of images, and the loss of samples (rows.h). Each thread block processes one row:
// an image, or the scores of a sample. Sums are in double, as on a CPU.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/elements.cuh"
#include "kernels/nn/rows.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;

// The largest factor that an image of n elements may have: 1 / (1 / sqrt(n)).
__device__ double MaxFactor(uint64_t n) { return sqrt(static_cast<double>(n)); }

template <typename T>
__global__ void __launch_bounds__(kThreads)
    StandardizeRow(const T* x, uint64_t n, T* y, float* scale) {
  __shared__ double row[kThreads];
  const T* image = x + blockIdx.x * n;
  double sum = 0, squares = 0;
  for (uint64_t i = threadIdx.x; i < n; i += kThreads) sum += AsFloat(image[i]);
  const double mean = SumOfBlock<kThreads>(sum, row) / static_cast<double>(n);
  for (uint64_t i = threadIdx.x; i < n; i += kThreads)
    squares += (AsFloat(image[i]) - mean) * (AsFloat(image[i]) - mean);
  const double deviation = sqrt(SumOfBlock<kThreads>(squares, row) / static_cast<double>(n));
  const double factor = fmin(1 / deviation, MaxFactor(n));
  for (uint64_t i = threadIdx.x; i < n; i += kThreads)
    y[blockIdx.x * n + i] = FromFloat<T>(static_cast<float>((AsFloat(image[i]) - mean) * factor));
  if (threadIdx.x == 0) scale[blockIdx.x] = static_cast<float>(factor);
}

// Computes dx = (dy - mean(dy) - y mean(dy y)) / d for one image, where d is the divisor of the
// forward pass. The term with y is omitted if d is not the deviation but its lower bound
// 1 / sqrt(n).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    StandardizeRowBack(const T* y, const T* dy, const float* scale, uint64_t n, T* dx) {
  __shared__ double row[kThreads];
  const uint64_t begin = blockIdx.x * n;
  double sum = 0, product = 0;
  for (uint64_t i = begin + threadIdx.x; i < begin + n; i += kThreads) {
    const double gradient = AsFloat(dy[i]), out = AsFloat(y[i]);
    sum += gradient;
    product += gradient * out;
  }
  const auto count = static_cast<double>(n);
  sum = SumOfBlock<kThreads>(sum, row) / count;
  product = SumOfBlock<kThreads>(product, row) / count;
  const bool is_deviation = scale[blockIdx.x] < static_cast<float>(MaxFactor(n));
  const double mean_product = is_deviation ? product : 0;
  for (uint64_t i = begin + threadIdx.x; i < begin + n; i += kThreads)
    dx[i] = FromFloat<T>(static_cast<float>((AsFloat(dy[i]) - sum - AsFloat(y[i]) * mean_product) *
                                            scale[blockIdx.x]));
}

// With label smoothing, the target probability of each class is `spread`, plus `at_label` for the
// label.
struct LossOptions {
  uint32_t classes;
  double spread, at_label;
};

// Computes the loss of one sample and the gradient of its scores. A sample that only fills up the
// batch (its number is step->used or more) has no loss; its gradient is 0.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    ComputeLossOfRow(const T* scores, const uint32_t* labels, LossOptions options,
                     const DeviceStep* step, DeviceLoss* losses, T* gradient) {
  __shared__ double row[kThreads];
  const uint32_t n = blockIdx.x, classes = options.classes;
  T* g = gradient == nullptr ? nullptr : gradient + uint64_t{n} * classes;
  if (n >= step->used) {
    for (uint32_t c = threadIdx.x; g != nullptr && c < classes; c += kThreads)
      g[c] = FromFloat<T>(0);
    return;
  }
  const T* sample_scores = scores + uint64_t{n} * classes;
  const uint32_t label = labels[n];
  // Each thread reads all scores. This is fast enough for the usual numbers of classes, up to about
  // a thousand.
  double largest = AsFloat(sample_scores[0]);
  for (uint32_t c = 1; c < classes; ++c) largest = fmax(largest, double{AsFloat(sample_scores[c])});
  const float label_score = AsFloat(sample_scores[label]);
  double sum = 0, sum_below_largest = 0, num_above = 0;
  for (uint32_t c = threadIdx.x; c < classes; c += kThreads) {
    const float score = AsFloat(sample_scores[c]);
    sum += exp(score - largest);
    sum_below_largest += score - largest;
    num_above += score > label_score || (score == label_score && c < label);
  }
  sum = SumOfBlock<kThreads>(sum, row);
  sum_below_largest = SumOfBlock<kThreads>(sum_below_largest, row);
  num_above = SumOfBlock<kThreads>(num_above, row);
  if (threadIdx.x == 0) {
    losses[n] = {
        log(sum) - options.at_label * (label_score - largest) - options.spread * sum_below_largest,
        static_cast<uint32_t>(num_above), 0};
  }
  for (uint32_t c = threadIdx.x; g != nullptr && c < classes; c += kThreads) {
    const double target = options.spread + (c == label ? options.at_label : 0);
    const double derivative =
        (exp(AsFloat(sample_scores[c]) - largest) / sum - target) / step->used;
    g[c] = FromFloat<T>(static_cast<float>(derivative * step->loss_scale));
  }
}

}  // namespace

int StandardizeForwardOnDevice(DeviceStream stream, DeviceType type, const void* x, uint32_t images,
                               uint64_t n, void* y, float* scale) {
  return DispatchType(type, [&]<typename T>() {
    return Launch(StandardizeRow<T>, images, kThreads, stream, static_cast<const T*>(x), n,
                  static_cast<T*>(y), scale);
  });
}

int StandardizeBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y, const void* dy,
                                const float* scale, uint32_t images, uint64_t n, void* dx) {
  return DispatchType(type, [&]<typename T>() {
    return Launch(StandardizeRowBack<T>, images, kThreads, stream, static_cast<const T*>(y),
                  static_cast<const T*>(dy), scale, n, static_cast<T*>(dx));
  });
}

int SoftmaxLossOnDevice(DeviceStream stream, DeviceType type, const void* scores,
                        const uint32_t* labels, uint32_t rows, uint32_t classes, float smoothing,
                        const DeviceStep* step, DeviceLoss* losses, void* gradient) {
  const LossOptions options{classes, double{smoothing} / classes, 1 - double{smoothing}};
  return DispatchType(type, [&]<typename T>() {
    return Launch(ComputeLossOfRow<T>, rows, kThreads, stream, static_cast<const T*>(scores),
                  labels, options, step, losses, static_cast<T*>(gradient));
  });
}

}  // namespace tern::kernels
