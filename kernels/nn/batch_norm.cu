// Batch norm on rows of channels: two sums per channel, then one pass over the elements.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/column_sums.cuh"
#include "kernels/nn/device_images.h"

namespace tern::kernels {
namespace {

// Loads values of channels [c, c + kCount). A pack begins at a multiple of 16 bytes.
template <uint32_t kCount>
__device__ void LoadChannelValues(const float* values, float* v) {
  constexpr uint32_t kAtOnce = kCount == 1 ? 1 : kPack<float>;
#pragma unroll
  for (uint32_t k = 0; k < kCount; k += kAtOnce) Load<kAtOnce>(values + k, v + k);
}

// Sums of x and x^2, relative to a pivot near the mean.
template <typename T, uint32_t kCount>
struct Moments {
  const T* x;
  struct ChannelView {
    using RawPack = Raw<T, kCount>;
    const T* x;
    float pivot[kCount];
    __device__ RawPack LoadRow(uint64_t i) const { return LoadRaw<kCount>(x + i); }
    __device__ void Add(const RawPack& row, uint64_t, float* first, float* second) const {
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
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view{x, {}};
    Load<kCount>(x + c, view.pivot);
    return view;
  }
};

// The forward pass's scale x + shift, without the added input. The backward pass finds the sign of
// the output by repeating exactly this computation.
struct Scaling {
  float scale, shift;
  __device__ float operator()(float x) const { return scale * x + shift; }
};
template <uint32_t kCount>
__device__ void LoadScaling(const DeviceNormState& state, uint32_t c, Scaling* scaling) {
  float scale[kCount], shift[kCount];
  LoadChannelValues<kCount>(state.scale + c, scale);
  LoadChannelValues<kCount>(state.shift + c, shift);
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) scaling[k] = {scale[k], shift[k]};
}

// Sums of g and g (x - mean), where g is dy if the output was above 0. With an added input, the
// output is read from y, and g is written to its own array.
template <typename T, uint32_t kCount, bool kAdded>
struct Gradients {
  DeviceNormState state;
  bool relu;
  const T *x, *dy, *y;
  T* g;
  struct ChannelView {
    struct RawPack {
      Raw<T, kCount> x, dy;
      Raw<T, kAdded ? kCount : 1> y;
    };
    Gradients source;
    float mean[kCount];
    Scaling scaling[kAdded ? 1 : kCount];
    __device__ RawPack LoadRow(uint64_t i) const {
      RawPack row{LoadRaw<kCount>(source.x + i), LoadRaw<kCount>(source.dy + i), {}};
      if constexpr (kAdded) row.y = LoadRaw<kCount>(source.y + i);
      return row;
    }
    __device__ void Add(const RawPack& row, uint64_t i, float* first, float* second) const {
      float v[kCount], d[kCount], out[kCount];
      AsFloats<T, kCount>(row.x, v);
      AsFloats<T, kCount>(row.dy, d);
      if constexpr (kAdded) AsFloats<T, kCount>(row.y, out);
#pragma unroll
      for (uint32_t k = 0; k < kCount; ++k) {
        if constexpr (!kAdded) out[k] = scaling[k](v[k]);
        if (source.relu && out[k] <= 0) d[k] = 0;
        first[k] += d[k];
        second[k] += d[k] * (v[k] - mean[k]);
      }
      if constexpr (kAdded) Store<kCount>(d, source.g + i);
    }
  };
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view{*this, {}, {}};
    LoadChannelValues<kCount>(state.mean + c, view.mean);
    if constexpr (!kAdded) LoadScaling<kCount>(state, c, view.scaling);
    return view;
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
  struct ChannelView {
    bool relu;
    Scaling scaling[kCount];
    __device__ float operator()(uint32_t k, float x) const { return Bound(scaling[k](x)); }
    __device__ float operator()(uint32_t k, float x, float r) const {
      return Bound(scaling[k](x) + r);
    }
    __device__ float Bound(float sum) const { return relu && sum <= 0 ? 0 : sum; }
  };
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view{relu, {}};
    LoadScaling<kCount>(state, c, view.scaling);
    return view;
  }
};

// Finishes the sums: gradients of gamma and beta, and slope and offset for ApplyBack.
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

// dx = scale g + (slope (x - mean) + offset), as on the CPU. Subtracting the mean first avoids
// cancellation for large means.
template <uint32_t kCount>
struct ApplyBack {
  DeviceNormState state;
  const float *slope, *offset;
  bool mask;  // whether dy still has to be masked to get g
  struct ChannelView {
    bool mask;
    Scaling scaling[kCount];
    float mean[kCount], slope[kCount], offset[kCount];
    __device__ float operator()(uint32_t k, float x, float dy) const {
      const float g = mask && scaling[k](x) <= 0 ? 0 : dy;
      return scaling[k].scale * g + (slope[k] * (x - mean[k]) + offset[k]);
    }
  };
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view{mask, {}, {}, {}, {}};
    LoadScaling<kCount>(state, c, view.scaling);
    LoadChannelValues<kCount>(state.mean + c, view.mean);
    LoadChannelValues<kCount>(slope + c, view.slope);
    LoadChannelValues<kCount>(offset + c, view.offset);
    return view;
  }
};

// Applies `view` to the elements at i, i + step, ...
template <uint32_t kRows, uint32_t kCount, typename ChannelView, typename T, typename... X>
__device__ void MapRowsAt(uint64_t i, uint64_t step, const ChannelView& view, T* y, const X*... x) {
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
      if constexpr (kInputs == 1) out[k] = view(k, in[0][k]);
      if constexpr (kInputs == 2) out[k] = view(k, in[0][k], in[1][k]);
    }
    Store<kCount>(out, y + i + r * step);
  }
}

// A thread processes the same channels of kRowsAtOnce rows, so it loads per-channel values once.
template <uint32_t kCount, typename Op, typename T, typename... X>
__global__ void __launch_bounds__(kSumThreads)
    MapRows(uint64_t rows, uint32_t channels, uint32_t threads_across, Op op, T* y, const X*... x) {
  const uint32_t groups = ColumnGroups(channels / kCount, threads_across),
                 threads_down = kSumThreads / threads_across;
  const uint32_t c = (blockIdx.x % groups * threads_across + threadIdx.x % threads_across) * kCount;
  if (c >= channels) return;
  const auto view = op.ViewOf(c);
  const uint64_t step = uint64_t{threads_down} * channels;
  uint64_t row =
      uint64_t{blockIdx.x / groups} * threads_down * kRowsAtOnce + threadIdx.x / threads_across;
  if (row + (kRowsAtOnce - 1) * threads_down < rows)
    return MapRowsAt<kRowsAtOnce, kCount>(row * channels + c, step, view, y, x...);
  for (; row < rows; row += threads_down)
    MapRowsAt<1, kCount>(row * channels + c, step, view, y, x...);
}

// y[i] = op.ViewOf(c)(k, x[i]...) for all elements i, where i belongs to channel c + k.
template <uint32_t kCount, typename Op, typename T, typename... X>
int Map(DeviceStream stream, const DeviceNorm& norm, const Op& op, T* y, const X*... x) {
  const uint32_t packs = norm.channels / kCount, threads_across = ThreadsAcross(packs);
  const uint64_t at_once = uint64_t{kSumThreads} / threads_across * kRowsAtOnce;
  const auto blocks = static_cast<uint32_t>((norm.rows + at_once - 1) / at_once);
  return Launch(MapRows<kCount, Op, T, X...>, blocks * ColumnGroups(packs, threads_across),
                kSumThreads, stream, norm.rows, norm.channels, threads_across, op, y, x...);
}

template <typename T, uint32_t kCount, bool kAdded>
int Backward(DeviceStream stream, const DeviceNorm& norm, const DeviceNormState& state,
             const DeviceNormBack& back, T* dx, const ParameterGradients& gradients) {
  const auto *x = static_cast<const T*>(back.x), *dy = static_cast<const T*>(back.dy);
  auto* g = static_cast<T*>(back.g);
  const Gradients<T, kCount, kAdded> source{state, norm.relu, x, dy, static_cast<const T*>(back.y),
                                            g};
  const int summed =
      SumColumns<kCount>(stream, norm.rows, norm.channels, source, state.partial, gradients);
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
