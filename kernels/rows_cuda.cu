// What a block does with a row: an image's standardization, a sample's loss. In double, as on the
// CPU.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device_layers.h"
#include "kernels/launch_inl.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    StandardizeRow(const float* x, uint64_t n, float* y, float* scale) {
  __shared__ double row[kThreads];
  const float* from = x + blockIdx.x * n;
  double sum = 0, squares = 0;
  for (uint64_t i = threadIdx.x; i < n; i += kThreads) sum += from[i];
  const double mean = SumOfBlock<kThreads>(sum, row) / static_cast<double>(n);
  for (uint64_t i = threadIdx.x; i < n; i += kThreads)
    squares += (from[i] - mean) * (from[i] - mean);
  const double deviation = sqrt(SumOfBlock<kThreads>(squares, row) / static_cast<double>(n));
  const double factor = 1 / fmax(deviation, 1 / sqrt(static_cast<double>(n)));
  for (uint64_t i = threadIdx.x; i < n; i += kThreads)
    y[blockIdx.x * n + i] = static_cast<float>((from[i] - mean) * factor);
  if (threadIdx.x == 0) scale[blockIdx.x] = static_cast<float>(factor);
}

// dx = (dy - mean(dy) - y mean(dy y)) / d; where d is not the deviation, without the last term.
__global__ void __launch_bounds__(kThreads)
    StandardizeRowBack(const float* y, const float* dy, const float* scale, uint64_t n, float* dx) {
  __shared__ double row[kThreads];
  const uint64_t begin = blockIdx.x * n;
  double sum = 0, product = 0, squares = 0;
  for (uint64_t i = begin + threadIdx.x; i < begin + n; i += kThreads) {
    sum += dy[i];
    product += double{dy[i]} * y[i];
    squares += double{y[i]} * y[i];
  }
  const auto count = static_cast<double>(n);
  sum = SumOfBlock<kThreads>(sum, row) / count;
  product = SumOfBlock<kThreads>(product, row) / count;
  squares = SumOfBlock<kThreads>(squares, row);
  const double along = squares > 0.5 * count ? product : 0;  // its own is 1, or much less
  for (uint64_t i = begin + threadIdx.x; i < begin + n; i += kThreads)
    dx[i] = static_cast<float>((dy[i] - sum - y[i] * along) * scale[blockIdx.x]);
}

struct LossOptions {
  uint32_t classes, used;
  double spread, at_label;
};

__global__ void __launch_bounds__(kThreads)
    LossOfRow(const float* scores, const uint32_t* labels, LossOptions options, DeviceLoss* losses,
              float* gradient) {
  __shared__ double row[kThreads];
  const uint32_t n = blockIdx.x, classes = options.classes;
  float* g = gradient == nullptr ? nullptr : gradient + uint64_t{n} * classes;
  if (n >= options.used) {
    for (uint32_t c = threadIdx.x; g != nullptr && c < classes; c += kThreads) g[c] = 0;
    return;
  }
  const float* x = scores + uint64_t{n} * classes;
  const uint32_t label = labels[n];
  double largest = x[0];  // by every thread: of a few hundred, or a thousand
  for (uint32_t c = 1; c < classes; ++c) largest = fmax(largest, double{x[c]});
  double sum = 0, linear = 0, before = 0;
  for (uint32_t c = threadIdx.x; c < classes; c += kThreads) {
    sum += exp(x[c] - largest);
    linear += x[c] - largest;
    before += x[c] > x[label] || (x[c] == x[label] && c < label);
  }
  sum = SumOfBlock<kThreads>(sum, row);
  linear = SumOfBlock<kThreads>(linear, row);
  before = SumOfBlock<kThreads>(before, row);
  if (threadIdx.x == 0) {
    losses[n] = {log(sum) - options.at_label * (x[label] - largest) - options.spread * linear,
                 static_cast<uint32_t>(before), 0};
  }
  for (uint32_t c = threadIdx.x; g != nullptr && c < classes; c += kThreads) {
    const double q = options.spread + (c == label ? options.at_label : 0);
    g[c] = static_cast<float>((exp(x[c] - largest) / sum - q) / options.used);
  }
}

}  // namespace

int StandardizeForwardOnDevice(DeviceStream stream, const float* x, uint32_t images, uint64_t n,
                               float* y, float* scale) {
  return Launch(StandardizeRow, images, kThreads, stream, x, n, y, scale);
}

int StandardizeBackwardOnDevice(DeviceStream stream, const float* y, const float* dy,
                                const float* scale, uint32_t images, uint64_t n, float* dx) {
  return Launch(StandardizeRowBack, images, kThreads, stream, y, dy, scale, n, dx);
}

int SoftmaxLossOnDevice(DeviceStream stream, const float* scores, const uint32_t* labels,
                        uint32_t rows, uint32_t classes, uint32_t used, float smoothing,
                        DeviceLoss* losses, float* gradient) {
  const LossOptions options{classes, used, double{smoothing} / classes, 1 - double{smoothing}};
  return Launch(LossOfRow, rows, kThreads, stream, scores, labels, options, losses, gradient);
}

}  // namespace tern::kernels
