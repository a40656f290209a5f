// Batch norm on rows of channels. Two sums a channel are taken by kNormPartials blocks, 32 channels
// and 4 rows at a time, in double; another launch adds them in order and says what the pass over
// the elements needs.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device_layers.h"
#include "kernels/launch_inl.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kWide = 32, kDeep = 4, kThreads = kWide * kDeep;

struct Pair {
  double first = 0, second = 0;
};

// Of each row, what it adds to the two sums of channel c.
struct Moments {
  const float* x;
  uint32_t channels;
  __device__ Pair operator()(uint64_t row, uint32_t c) const {
    const double beyond = double{x[row * channels + c]} - x[c];  // a pivot near the mean
    return {beyond, beyond * beyond};
  }
};

struct Gradients {
  const float *x, *y, *dy, *mean;
  uint32_t channels;
  bool relu;
  float* g;
  __device__ Pair operator()(uint64_t row, uint32_t c) const {
    const uint64_t i = row * channels + c;
    const float passed = relu && !(y[i] > 0) ? 0 : dy[i];
    g[i] = passed;
    return {passed, double{passed} * (x[i] - mean[c])};
  }
};

// partial[(2 * c + {0, 1}) * kNormPartials + b]: of block b of channel c's.
template <typename Of>
__global__ void __launch_bounds__(kThreads)
    TakeSums(uint64_t rows, uint32_t channels, Of of, double* partial) {
  __shared__ double first[kThreads], second[kThreads];
  const uint32_t groups = (channels + kWide - 1) / kWide;
  const uint32_t group = blockIdx.x % groups, b = blockIdx.x / groups;
  const uint32_t c = group * kWide + threadIdx.x % kWide, deep = threadIdx.x / kWide;
  Pair sum;
  for (uint64_t row = uint64_t{b} * kDeep + deep; c < channels && row < rows;
       row += uint64_t{kNormPartials} * kDeep) {
    const Pair one = of(row, c);
    sum.first += one.first;
    sum.second += one.second;
  }
  first[threadIdx.x] = sum.first;
  second[threadIdx.x] = sum.second;
  __syncthreads();
  if (deep == 0 && c < channels) {
    for (uint32_t d = 1; d < kDeep; ++d) {
      sum.first += first[d * kWide + threadIdx.x];
      sum.second += second[d * kWide + threadIdx.x];
    }
    partial[uint64_t{2} * c * kNormPartials + b] = sum.first;
    partial[(uint64_t{2} * c + 1) * kNormPartials + b] = sum.second;
  }
}

__device__ Pair AllOf(const double* partial, uint64_t c) {
  Pair sum;
  for (uint32_t b = 0; b < kNormPartials; ++b) {
    sum.first += partial[2 * c * kNormPartials + b];
    sum.second += partial[(2 * c + 1) * kNormPartials + b];
  }
  return sum;
}

template <typename Of>
int Sums(DeviceStream stream, const DeviceNorm& norm, const Of& of, double* partial) {
  const uint32_t groups = (norm.channels + kWide - 1) / kWide;
  return Launch(TakeSums<Of>, groups * kNormPartials, kThreads, stream, norm.rows, norm.channels,
                of, partial);
}

struct SetScale {
  DeviceNorm norm;
  DeviceNormState state;
  bool training;
  const float* x;

  __device__ void operator()(uint64_t c) const {
    double mean = state.running_mean[c], variance = state.running_variance[c];
    if (training) {
      const auto n = static_cast<double>(norm.rows);
      const Pair sums = AllOf(state.partial, c);
      const double beyond = sums.first / n;
      variance = fmax(0.0, sums.second / n - beyond * beyond);
      mean = x[c] + beyond;
      const double unbiased = n > 1 ? n / (n - 1) : 1, kept = 1 - norm.momentum;
      state.running_mean[c] =
          static_cast<float>(kept * state.running_mean[c] + norm.momentum * mean);
      state.running_variance[c] = static_cast<float>(kept * state.running_variance[c] +
                                                     norm.momentum * unbiased * variance);
    }
    const double inverse = 1 / sqrt(variance + norm.epsilon);
    state.mean[c] = static_cast<float>(mean);
    state.inverse[c] = static_cast<float>(inverse);
    state.scale[c] = static_cast<float>(state.gamma[c] * inverse);
    state.shift[c] = static_cast<float>(state.beta[c] - mean * state.gamma[c] * inverse);
  }
};

struct Apply {
  uint32_t channels;
  const float *scale, *shift, *x, *r;
  bool relu;
  float* y;
  __device__ void operator()(uint64_t i) const {
    const uint64_t c = i % channels;
    float sum = scale[c] * x[i] + shift[c];
    if (r != nullptr) sum += r[i];
    y[i] = relu ? fmaxf(sum, 0) : sum;
  }
};

struct ParameterGradients {
  const double* partial;
  const float* inverse;
  float *gamma, *beta;
  __device__ void operator()(uint64_t c) const {
    const Pair sums = AllOf(partial, c);
    gamma[c] = static_cast<float>(sums.second * inverse[c]);
    beta[c] = static_cast<float>(sums.first);
  }
};

// dx = scale (g - sum g / n - x^ sum(g x^) / n), the sums as the gradients have them.
struct ApplyBack {
  DeviceNorm norm;
  DeviceNormState state;
  const float *x, *g, *gamma_gradient, *beta_gradient;
  float* dx;
  __device__ void operator()(uint64_t i) const {
    const uint64_t c = i % norm.channels;
    const float n = static_cast<float>(norm.rows);
    const float normal = (x[i] - state.mean[c]) * state.inverse[c];
    dx[i] = state.scale[c] * (g[i] - beta_gradient[c] / n - normal * (gamma_gradient[c] / n));
  }
};

}  // namespace

int BatchNormForwardOnDevice(DeviceStream stream, const DeviceNorm& norm,
                             const DeviceNormState& state, bool training, const float* x,
                             const float* r, bool relu, float* y) {
  if (training) {
    const int summed = Sums(stream, norm, Moments{x, norm.channels}, state.partial);
    if (summed != 0) return summed;
  }
  const int set = ForEach(stream, norm.channels, SetScale{norm, state, training, x});
  if (set != 0) return set;
  return ForEach(stream, norm.rows * norm.channels,
                 Apply{norm.channels, state.scale, state.shift, x, r, relu, y});
}

int BatchNormBackwardOnDevice(DeviceStream stream, const DeviceNorm& norm,
                              const DeviceNormState& state, const float* x, const float* y,
                              const float* dy, bool relu, float* g, float* dx,
                              float* gamma_gradient, float* beta_gradient) {
  const Gradients of{x, y, dy, state.mean, norm.channels, relu, g};
  const int summed = Sums(stream, norm, of, state.partial);
  if (summed != 0) return summed;
  const int set =
      ForEach(stream, norm.channels,
              ParameterGradients{state.partial, state.inverse, gamma_gradient, beta_gradient});
  if (set != 0) return set;
  return ForEach(stream, norm.rows * norm.channels,
                 ApplyBack{norm, state, x, g, gamma_gradient, beta_gradient, dx});
}

}  // namespace tern::kernels
