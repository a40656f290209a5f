// Batch norm on rows of channels: two sums a channel, then one pass over the elements.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/column_sums_inl.h"
#include "kernels/device_layers.h"

namespace tern::kernels {
namespace {

// x and x^2, from a pivot that is near the mean.
template <typename T, uint32_t kCount>
struct Moments {
  const T* x;
  struct Mine {
    const T* x;
    float pivot[kCount];
    __device__ void operator()(uint64_t i, float* first, float* second) const {
      float v[kCount];
      Load<kCount>(x + i, v);
#pragma unroll
      for (uint32_t k = 0; k < kCount; ++k) {
        const float beyond = v[k] - pivot[k];
        first[k] += beyond;
        second[k] += beyond * beyond;
      }
    }
  };
  __device__ Mine For(uint32_t c) const {
    Mine mine{x, {}};
    Load<kCount>(x + c, mine.pivot);
    return mine;
  }
};

// g and g (x - mean): g is dy where the output was above 0.
template <typename T, uint32_t kCount>
struct Gradients {
  DeviceNormState state;
  bool relu;
  const T *x, *dy, *y;
  T* g;
  struct Mine {
    Gradients of;
    float mean[kCount], scale[kCount], shift[kCount];
    __device__ void operator()(uint64_t i, float* first, float* second) const {
      float v[kCount], d[kCount], out[kCount] = {};
      Load<kCount>(of.x + i, v);
      Load<kCount>(of.dy + i, d);
      if (of.y != nullptr) Load<kCount>(of.y + i, out);
#pragma unroll
      for (uint32_t k = 0; k < kCount; ++k) {
        if (of.y == nullptr) out[k] = scale[k] * v[k] + shift[k];
        if (of.relu && out[k] <= 0) d[k] = 0;
        first[k] += d[k];
        second[k] += d[k] * (v[k] - mean[k]);
      }
      if (of.g != nullptr) Store<kCount>(d, of.g + i);
    }
  };
  __device__ Mine For(uint32_t c) const {
    Mine mine{*this, {}, {}, {}};
    for (uint32_t k = 0; k < kCount; ++k) {
      mine.mean[k] = state.mean[c + k];
      mine.scale[k] = state.scale[c + k];
      mine.shift[k] = state.shift[c + k];
    }
    return mine;
  }
};

template <typename T>
struct SetScale {
  DeviceNorm norm;
  DeviceNormState state;
  bool training;
  const T* x;

  __device__ void operator()(uint64_t c, const Pair& sums) const {
    double mean = state.running_mean[c], variance = state.running_variance[c];
    if (training) {
      const auto n = static_cast<double>(norm.rows);
      const double beyond = sums.first / n;
      variance = fmax(0.0, sums.second / n - beyond * beyond);
      mean = AsFloat(x[c]) + beyond;
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
  __device__ void operator()(uint64_t c) const { (*this)(c, {}); }
};

struct Apply {
  const float *scale, *shift;
  bool relu;
  __device__ float operator()(uint32_t c, float x) const { return Bound(scale[c] * x + shift[c]); }
  __device__ float operator()(uint32_t c, float x, float r) const {
    return Bound(scale[c] * x + shift[c] + r);
  }
  __device__ float Bound(float sum) const { return relu && sum <= 0 ? 0 : sum; }
};

struct ParameterGradients {
  const float* inverse;
  const DeviceStep* step;
  float *sums, *gamma, *beta;
  __device__ void operator()(uint64_t c, const Pair& pair) const {
    const double along = pair.second * inverse[c];
    sums[2 * c] = static_cast<float>(pair.first);
    sums[2 * c + 1] = static_cast<float>(along);
    gamma[c] = static_cast<float>(along * step->inverse_scale);
    beta[c] = static_cast<float>(pair.first * step->inverse_scale);
  }
};

// dx = scale (g - sum g / n - x^ sum(g x^) / n).
struct ApplyBack {
  DeviceNormState state;
  const float* sums;
  float n;
  bool mask;  // dy is not g yet
  __device__ float operator()(uint32_t c, float x, float dy) const {
    const float g = mask && state.scale[c] * x + state.shift[c] <= 0 ? 0 : dy;
    const float normal = (x - state.mean[c]) * state.inverse[c];
    return state.scale[c] * (g - sums[2 * c] / n - normal * (sums[2 * c + 1] / n));
  }
};

}  // namespace

int BatchNormForwardOnDevice(DeviceStream stream, DeviceType type, const DeviceNorm& norm,
                             const DeviceNormState& state, bool training, const void* x,
                             const void* r, void* y) {
  return OfTypeAndPack(type, norm.channels, [&]<typename T, uint32_t kCount>() {
    const auto* from = static_cast<const T*>(x);
    const SetScale<T> set{norm, state, training, from};
    const int summed = training ? SumColumns<kCount>(stream, norm.rows, norm.channels,
                                                     Moments<T, kCount>{from}, state.partial, set)
                                : ForEach(stream, norm.channels, set);
    if (summed != 0) return summed;
    const Apply apply{state.scale, state.shift, norm.relu};
    const uint64_t n = norm.rows * norm.channels;
    auto* to = static_cast<T*>(y);
    if (r == nullptr) return Map<T, kCount>(stream, n, norm.channels, apply, to, from);
    return Map<T, kCount>(stream, n, norm.channels, apply, to, from, static_cast<const T*>(r));
  });
}

int BatchNormBackwardOnDevice(DeviceStream stream, DeviceType type, const DeviceNorm& norm,
                              const DeviceNormState& state, const DeviceNormBack& back,
                              const DeviceStep* step, float* sums, void* dx, float* gamma_gradient,
                              float* beta_gradient) {
  return OfTypeAndPack(type, norm.channels, [&]<typename T, uint32_t kCount>() {
    const auto *x = static_cast<const T*>(back.x), *dy = static_cast<const T*>(back.dy);
    auto* g = static_cast<T*>(back.g);
    const Gradients<T, kCount> of{state, norm.relu, x, dy, static_cast<const T*>(back.y), g};
    const int summed = SumColumns<kCount>(
        stream, norm.rows, norm.channels, of, state.partial,
        ParameterGradients{state.inverse, step, sums, gamma_gradient, beta_gradient});
    if (summed != 0) return summed;
    const ApplyBack apply{state, sums, static_cast<float>(norm.rows), norm.relu && g == nullptr};
    return Map<T, kCount>(stream, norm.rows * norm.channels, norm.channels, apply,
                          static_cast<T*>(dx), x, g == nullptr ? dy : static_cast<const T*>(g));
  });
}

}  // namespace tern::kernels
