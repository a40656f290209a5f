// Batch norm on rows of channels: two sums a channel, then one pass over the elements.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/column_sums.cuh"
#include "kernels/nn/device_images.h"

namespace tern::kernels {
namespace {

// Of channels [c, c + kCount): where these are a pack, from a multiple of 16 bytes on.
template <uint32_t kCount>
__device__ void LoadNumbers(const float* of_channels, float* v) {
  constexpr uint32_t kAtOnce = kCount == 1 ? 1 : kPack<float>;
#pragma unroll
  for (uint32_t k = 0; k < kCount; k += kAtOnce) Load<kAtOnce>(of_channels + k, v + k);
}

// x and x^2, from a pivot that is near the mean.
template <typename T, uint32_t kCount>
struct Moments {
  const T* x;
  struct Mine {
    using Row = Raw<T, kCount>;
    const T* x;
    float pivot[kCount];
    __device__ Row LoadRow(uint64_t i) const { return LoadRaw<kCount>(x + i); }
    __device__ void Add(const Row& row, uint64_t, float* first, float* second) const {
      float v[kCount];
      AsFloats<T, kCount>(row, v);
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

// The forward's sum without what was added; backward its sign is found again by these very lines.
struct Scaling {
  float scale, shift;
  __device__ float operator()(float x) const { return scale * x + shift; }
};
template <uint32_t kCount>
__device__ void LoadScaling(const DeviceNormState& state, uint32_t c, Scaling* scaling) {
  float scale[kCount], shift[kCount];
  LoadNumbers<kCount>(state.scale + c, scale);
  LoadNumbers<kCount>(state.shift + c, shift);
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) scaling[k] = {scale[k], shift[k]};
}

// g and g (x - mean): g is dy where the output was above 0. That lies at y where something was
// added, and then g goes to its own place.
template <typename T, uint32_t kCount, bool kAdded>
struct Gradients {
  DeviceNormState state;
  bool relu;
  const T *x, *dy, *y;
  T* g;
  struct Mine {
    struct Row {
      Raw<T, kCount> x, dy;
      Raw<T, kAdded ? kCount : 1> y;
    };
    Gradients of;
    float mean[kCount];
    Scaling scaling[kAdded ? 1 : kCount];
    __device__ Row LoadRow(uint64_t i) const {
      Row row{LoadRaw<kCount>(of.x + i), LoadRaw<kCount>(of.dy + i), {}};
      if constexpr (kAdded) row.y = LoadRaw<kCount>(of.y + i);
      return row;
    }
    __device__ void Add(const Row& row, uint64_t i, float* first, float* second) const {
      float v[kCount], d[kCount], out[kCount];
      AsFloats<T, kCount>(row.x, v);
      AsFloats<T, kCount>(row.dy, d);
      if constexpr (kAdded) AsFloats<T, kCount>(row.y, out);
#pragma unroll
      for (uint32_t k = 0; k < kCount; ++k) {
        if constexpr (!kAdded) out[k] = scaling[k](v[k]);
        if (of.relu && out[k] <= 0) d[k] = 0;
        first[k] += d[k];
        second[k] += d[k] * (v[k] - mean[k]);
      }
      if constexpr (kAdded) Store<kCount>(d, of.g + i);
    }
  };
  __device__ Mine For(uint32_t c) const {
    Mine mine{*this, {}, {}};
    LoadNumbers<kCount>(state.mean + c, mine.mean);
    if constexpr (!kAdded) LoadScaling<kCount>(state, c, mine.scaling);
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

template <uint32_t kCount>
struct Apply {
  DeviceNormState state;
  bool relu;
  struct Mine {
    bool relu;
    Scaling scaling[kCount];
    __device__ float operator()(uint32_t k, float x) const { return Bound(scaling[k](x)); }
    __device__ float operator()(uint32_t k, float x, float r) const {
      return Bound(scaling[k](x) + r);
    }
    __device__ float Bound(float sum) const { return relu && sum <= 0 ? 0 : sum; }
  };
  __device__ Mine For(uint32_t c) const {
    Mine mine{relu, {}};
    LoadScaling<kCount>(state, c, mine.scaling);
    return mine;
  }
};

// Along with those of gamma and beta, slope and offset of ApplyBack.
struct ParameterGradients {
  const float *scale, *inverse;
  const DeviceStep* step;
  double rows;
  float *slope, *offset, *gamma, *beta;
  __device__ void operator()(uint64_t c, const Pair& pair) const {
    const double along = pair.second * inverse[c], share = scale[c] / rows;
    slope[c] = static_cast<float>(-share * along * inverse[c]);
    offset[c] = static_cast<float>(-share * pair.first);
    gamma[c] = static_cast<float>(along * step->inverse_scale);
    beta[c] = static_cast<float>(pair.first * step->inverse_scale);
  }
};

// dx = scale g + (slope (x - mean) + offset), as on the CPU: around the mean nothing large is left
// to cancel, whatever the mean is.
template <uint32_t kCount>
struct ApplyBack {
  DeviceNormState state;
  const float *slope, *offset;
  bool mask;  // dy is not g yet
  struct Mine {
    bool mask;
    Scaling scaling[kCount];
    float mean[kCount], slope[kCount], offset[kCount];
    __device__ float operator()(uint32_t k, float x, float dy) const {
      const float g = mask && scaling[k](x) <= 0 ? 0 : dy;
      return scaling[k].scale * g + (slope[k] * (x - mean[k]) + offset[k]);
    }
  };
  __device__ Mine For(uint32_t c) const {
    Mine mine{mask, {}, {}, {}, {}};
    LoadScaling<kCount>(state, c, mine.scaling);
    LoadNumbers<kCount>(state.mean + c, mine.mean);
    LoadNumbers<kCount>(slope + c, mine.slope);
    LoadNumbers<kCount>(offset + c, mine.offset);
    return mine;
  }
};

// Elements at i, i + step, ... by what a thread has of their channels.
template <uint32_t kRows, uint32_t kCount, typename Mine, typename T, typename... X>
__device__ void MapRowsAt(uint64_t i, uint64_t step, const Mine& mine, T* y, const X*... x) {
  constexpr uint32_t kInputs = sizeof...(X);
  Raw<T, kCount> raw[kRows][kInputs];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    uint32_t n = 0;
    ((raw[r][n++] = LoadRaw<kCount>(x + i + r * step)), ...);
  }
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    float in[kInputs][kCount], out[kCount];
    for (uint32_t n = 0; n < kInputs; ++n) AsFloats<T, kCount>(raw[r][n], in[n]);
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) {
      if constexpr (kInputs == 1) out[k] = mine(k, in[0][k]);
      if constexpr (kInputs == 2) out[k] = mine(k, in[0][k], in[1][k]);
    }
    Store<kCount>(out, y + i + r * step);
  }
}

// A thread takes the same channels of kRowsAtOnce rows: what these have is loaded once.
template <uint32_t kCount, typename Of, typename T, typename... X>
__global__ void __launch_bounds__(kSumThreads)
    MapRows(uint64_t rows, uint32_t channels, uint32_t wide, Of of, T* y, const X*... x) {
  const uint32_t groups = GroupsOf(channels / kCount, wide), deep = kSumThreads / wide;
  const uint32_t c = (blockIdx.x % groups * wide + threadIdx.x % wide) * kCount;
  if (c >= channels) return;
  const auto mine = of.For(c);
  const uint64_t step = uint64_t{deep} * channels;
  uint64_t row = uint64_t{blockIdx.x / groups} * deep * kRowsAtOnce + threadIdx.x / wide;
  if (row + (kRowsAtOnce - 1) * deep < rows)
    return MapRowsAt<kRowsAtOnce, kCount>(row * channels + c, step, mine, y, x...);
  for (; row < rows; row += deep) MapRowsAt<1, kCount>(row * channels + c, step, mine, y, x...);
}

// y[i] = of.For(c)(k, x[i]...) of all elements, i being of channel c + k.
template <uint32_t kCount, typename Of, typename T, typename... X>
int Map(DeviceStream stream, const DeviceNorm& norm, const Of& of, T* y, const X*... x) {
  const uint32_t packs = norm.channels / kCount, wide = WideOf(packs);
  const uint64_t at_once = uint64_t{kSumThreads} / wide * kRowsAtOnce;
  const auto blocks = static_cast<uint32_t>((norm.rows + at_once - 1) / at_once);
  return Launch(MapRows<kCount, Of, T, X...>, blocks * GroupsOf(packs, wide), kSumThreads, stream,
                norm.rows, norm.channels, wide, of, y, x...);
}

template <typename T, uint32_t kCount, bool kAdded>
int Backward(DeviceStream stream, const DeviceNorm& norm, const DeviceNormState& state,
             const DeviceNormBack& back, T* dx, const ParameterGradients& gradients) {
  const auto *x = static_cast<const T*>(back.x), *dy = static_cast<const T*>(back.dy);
  auto* g = static_cast<T*>(back.g);
  const Gradients<T, kCount, kAdded> of{state, norm.relu, x, dy, static_cast<const T*>(back.y), g};
  const int summed =
      SumColumns<kCount>(stream, norm.rows, norm.channels, of, state.partial, gradients);
  if (summed != 0) return summed;
  const ApplyBack<kCount> apply{state, gradients.slope, gradients.offset, norm.relu && !kAdded};
  return Map<kCount>(stream, norm, apply, dx, x, kAdded ? static_cast<const T*>(g) : dy);
}

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
    const Apply<kCount> apply{state, norm.relu};
    auto* to = static_cast<T*>(y);
    if (r == nullptr) return Map<kCount>(stream, norm, apply, to, from);
    return Map<kCount>(stream, norm, apply, to, from, static_cast<const T*>(r));
  });
}

int BatchNormBackwardOnDevice(DeviceStream stream, DeviceType type, const DeviceNorm& norm,
                              const DeviceNormState& state, const DeviceNormBack& back,
                              const DeviceStep* step, float* sums, void* dx, float* gamma_gradient,
                              float* beta_gradient) {
  const ParameterGradients gradients{
      state.scale, state.inverse,        step,           static_cast<double>(norm.rows),
      sums,        sums + norm.channels, gamma_gradient, beta_gradient};
  return OfTypeAndPack(type, norm.channels, [&]<typename T, uint32_t kCount>() {
    auto* to = static_cast<T*>(dx);
    if (back.g == nullptr)
      return Backward<T, kCount, false>(stream, norm, state, back, to, gradients);
    return Backward<T, kCount, true>(stream, norm, state, back, to, gradients);
  });
}

}  // namespace tern::kernels
