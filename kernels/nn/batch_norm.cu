// Batch norm (batch_norm.h) on a GPU, for arrays [rows, channels]. The forward pass in training and
// the backward pass each compute two sums per channel (column_sums.cuh), and then make one pass
// over the elements.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/column_sums.cuh"
#include "kernels/nn/device_images.h"

namespace tern::kernels {
namespace {

// Loads kCount neighbouring floats, aligned to 16 bytes if kCount is above 1.
template <uint32_t kCount>
__device__ void LoadChannelValues(const float* values, float* v) {
  constexpr uint32_t kAtOnce = kCount == 1 ? 1 : kPackElements<float>;
#pragma unroll
  for (uint32_t k = 0; k < kCount; k += kAtOnce) Load<kAtOnce>(values + k, v + k);
}

// A source for SumColumns: sums of x - pivot and (x - pivot)^2. The pivot of a channel is its first
// element, which is usually near the mean.
template <typename T, uint32_t kCount>
struct MomentsSource {
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
        const float deviation = v[k] - pivot[k];
        first[k] += deviation;
        second[k] = fmaf(deviation, deviation, second[k]);
      }
    }
  };
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view{x, {}};
    Load<kCount>(x + c, view.pivot);
    return view;
  }
};

// Computes scale x + shift. If the forward pass added no input before the ReLU, the backward pass
// repeats exactly this computation to find the sign of the output.
struct Scaling {
  float scale, shift;
  __device__ float operator()(float x) const { return fmaf(scale, x, shift); }
};
// Loads scale and shift of channels [c, c + kCount).
template <uint32_t kCount>
__device__ void LoadScaling(const DeviceNormState& state, uint32_t c, Scaling* scaling) {
  float scale[kCount], shift[kCount];
  LoadChannelValues<kCount>(state.scale + c, scale);
  LoadChannelValues<kCount>(state.shift + c, shift);
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) scaling[k] = {scale[k], shift[k]};
}

// A source for SumColumns: sums of g and g (x - mean) (batch_norm.h). If the forward pass added an
// input before a ReLU (kAdded), reads the output from y, and stores g.
template <typename T, uint32_t kCount, bool kAdded>
struct GradientsSource {
  DeviceNormState state;
  bool has_relu;
  const T *x, *dy, *y;
  T* g;
  struct ChannelView {
    struct RawPack {
      Raw<T, kCount> x, dy;
      Raw<T, kAdded ? kCount : 1> y;
    };
    GradientsSource source;
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
        if (source.has_relu && out[k] <= 0) d[k] = 0;
        first[k] += d[k];
        second[k] = fmaf(d[k], v[k] - mean[k], second[k]);
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

// Computes mean, inverse, scale and shift of channel c. In training, uses the sums of MomentsSource
// or, with a pivot of 0, state.sums, and also updates the running moments; otherwise, uses the
// running moments.
template <typename T>
struct ScaleSetter {
  DeviceNorm norm;
  DeviceNormState state;
  bool is_training;
  const T* x;

  // What is loaded for a channel.
  struct Inputs {
    float running_mean, running_variance, gamma, beta, pivot;
  };
  __device__ Inputs Load(uint64_t c) const {
    return {state.running_mean[c], state.running_variance[c], state.gamma[c], state.beta[c],
            AsFloat(x[c])};
  }
  __device__ void operator()(uint64_t c, const TwoSums& sums, const Inputs& inputs) const {
    double mean = inputs.running_mean, variance = inputs.running_variance;
    if (is_training) {
      const auto n = static_cast<double>(norm.rows);
      const double mean_minus_pivot = sums.first / n;
      variance = fmax(0.0, sums.second / n - mean_minus_pivot * mean_minus_pivot);
      mean = inputs.pivot + mean_minus_pivot;
      const double unbiased = n > 1 ? n / (n - 1) : 1, running_weight = 1 - norm.momentum;
      state.running_mean[c] =
          static_cast<float>(running_weight * inputs.running_mean + norm.momentum * mean);
      state.running_variance[c] = static_cast<float>(running_weight * inputs.running_variance +
                                                     norm.momentum * unbiased * variance);
    }
    const double inverse = 1 / sqrt(variance + norm.epsilon);
    state.mean[c] = static_cast<float>(mean);
    state.inverse[c] = static_cast<float>(inverse);
    if (state.rounded != nullptr) return SetRounded(c, inputs.gamma * inverse, mean, inputs.beta);
    state.scale[c] = static_cast<float>(inputs.gamma * inverse);
    state.shift[c] = static_cast<float>(inputs.beta - mean * inputs.gamma * inverse);
  }
  __device__ void SetRounded(uint64_t c, double scale, double mean, float beta) const {
    auto *scales = static_cast<T*>(state.rounded), *shifts = scales + norm.channels;
    const double limit = 0x1p15 / fmax(1.0, fabs(mean));
    scales[c] = FromFloat<T>(static_cast<float>(fmax(-limit, fmin(limit, scale))));
    state.scale[c] = AsFloat(scales[c]);
    shifts[c] = FromFloat<T>(static_cast<float>(beta - mean * state.scale[c]));
    state.shift[c] = AsFloat(shifts[c]);
  }
  // For channels whose moments are known: in training, from state.sums.
  __device__ void operator()(uint64_t c) const {
    Inputs inputs = Load(c);
    TwoSums sums;
    if (is_training) {
      sums = {state.sums[c], state.sums[norm.channels + c]};
      inputs.pivot = 0;
    }
    (*this)(c, sums, inputs);
  }
};

// Computes the output y of one element from its input x and, if there is one, the added input r.
template <uint32_t kCount>
struct OutputOp {
  DeviceNormState state;
  bool has_relu;
  struct ChannelView {
    bool has_relu;
    Scaling scaling[kCount];
    __device__ float operator()(uint32_t k, float x) const { return ReluIfAny(scaling[k](x)); }
    __device__ float operator()(uint32_t k, float x, float r) const {
      return ReluIfAny(scaling[k](x) + r);
    }
    __device__ float ReluIfAny(float sum) const { return has_relu && sum <= 0 ? 0 : sum; }
  };
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view{has_relu, {}};
    LoadScaling<kCount>(state, c, view.scaling);
    return view;
  }
};

// Computes the output as OutputOp with a ReLU does, from DeviceNormState::rounded.
template <typename T, uint32_t kCount>
struct NormalizeOp {
  const T *scales, *shifts;
  using ChannelView = typename OutputOp<kCount>::ChannelView;
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view{/*has_relu=*/true, {}};
    float scale[kCount], shift[kCount];
    Load<kCount>(scales + c, scale);
    Load<kCount>(shifts + c, shift);
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) view.scaling[k] = {scale[k], shift[k]};
    return view;
  }
};

// Computes the gradients of gamma and beta of channel c from the sums of GradientsSource, and slope
// and offset for InputGradientOp. Slope and offset are 0 if the moments are constants.
struct ParameterGradients {
  const float *scale, *inverse;
  const DeviceStep* step;
  double rows;
  bool has_constant_moments;
  float *slope, *offset, *gamma, *beta;
  // What is loaded for a channel.
  struct Inputs {
    float scale, inverse, inverse_scale;
  };
  __device__ Inputs Load(uint64_t c) const { return {scale[c], inverse[c], step->inverse_scale}; }
  __device__ void operator()(uint64_t c, const TwoSums& sums, const Inputs& inputs) const {
    const double sum_g_x = sums.second * inputs.inverse, scale_per_row = inputs.scale / rows;
    slope[c] =
        has_constant_moments ? 0 : static_cast<float>(-scale_per_row * sum_g_x * inputs.inverse);
    offset[c] = has_constant_moments ? 0 : static_cast<float>(-scale_per_row * sums.first);
    gamma[c] = static_cast<float>(sum_g_x * inputs.inverse_scale);
    beta[c] = static_cast<float>(sums.first * inputs.inverse_scale);
  }
};

// Computes dx = scale g + (slope (x - mean) + offset) of one element. Subtracting the mean first
// avoids cancellation for large means. kMasks: the second input is dy, and the ReLU's mask gives
// g; otherwise, the second input is g.
template <uint32_t kCount, bool kMasks>
struct InputGradientOp {
  DeviceNormState state;
  const float *slope, *offset;
  struct ChannelView {
    float scale[kCount], shift[kMasks ? kCount : 1];
    float mean[kCount], slope[kCount], offset[kCount];
    __device__ float operator()(uint32_t k, float x, float g) const {
      if constexpr (kMasks) g = Scaling{scale[k], shift[k]}(x) <= 0 ? 0 : g;
      return fmaf(scale[k], g, fmaf(slope[k], x - mean[k], offset[k]));
    }
  };
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view;
    LoadChannelValues<kCount>(state.scale + c, view.scale);
    if constexpr (kMasks) LoadChannelValues<kCount>(state.shift + c, view.shift);
    LoadChannelValues<kCount>(state.mean + c, view.mean);
    LoadChannelValues<kCount>(slope + c, view.slope);
    LoadChannelValues<kCount>(offset + c, view.offset);
    return view;
  }
};

constexpr uint32_t kMapThreads = 128;  // threads per block
constexpr uint32_t kMapRows = 4;       // rows that a thread processes at once

// The threads of a block are arranged in rows, as in column_sums.cuh. Returns the threads per row:
// the least power of 2 that is at least `num_packs`, but at most 32.
uint32_t ThreadsAcross(uint32_t num_packs) { return std::min(std::bit_ceil(num_packs), 32u); }

// How many rows of threads are needed for all packs of one row of the array.
TERN_HOST_DEVICE uint32_t ColumnGroups(uint32_t num_packs, uint32_t threads_across) {
  return (num_packs + threads_across - 1) / threads_across;
}

// Sets y to view(k, x...) for the elements i + k, i + element_step + k, ... of kMapRows rows, where
// k goes from 0 to kCount - 1. These rows are 0, row_step, ...; only rows below num_rows exist.
template <uint32_t kCount, typename ChannelView, typename T, typename... X>
__device__ void MapRowsAt(uint64_t i, uint64_t element_step, uint64_t num_rows, uint32_t row_step,
                          const ChannelView& view, T* y, const X*... x) {
  constexpr uint32_t kInputs = sizeof...(X);
  Raw<T, kCount> raw[kMapRows][kInputs];
#pragma unroll
  for (uint32_t r = 0; r < kMapRows; ++r) {
    uint32_t n = 0;
    if (r * row_step < num_rows) ((raw[r][n++] = LoadRaw<kCount>(x + i + r * element_step)), ...);
  }
#pragma unroll
  for (uint32_t r = 0; r < kMapRows; ++r) {
    if (r * row_step >= num_rows) continue;
    float in[kInputs][kCount], out[kCount];
    for (uint32_t n = 0; n < kInputs; ++n) AsFloats<T, kCount>(raw[r][n], in[n]);
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) {
      if constexpr (kInputs == 1) out[k] = view(k, in[0][k]);
      if constexpr (kInputs == 2) out[k] = view(k, in[0][k], in[1][k]);
    }
    Store<kCount>(out, y + i + r * element_step);
  }
}

// A thread processes the same channels of kMapRows rows, so that it loads the values of these
// channels once.
template <uint32_t kCount, typename Op, typename T, typename... X>
__global__ void __launch_bounds__(kMapThreads)
    MapRows(uint64_t rows, uint32_t channels, uint32_t threads_across, Op op, T* y, const X*... x) {
  const uint32_t num_groups = ColumnGroups(channels / kCount, threads_across),
                 threads_down = kMapThreads / threads_across;
  const uint32_t c =
      (blockIdx.x % num_groups * threads_across + threadIdx.x % threads_across) * kCount;
  const uint64_t row =
      uint64_t{blockIdx.x / num_groups} * threads_down * kMapRows + threadIdx.x / threads_across;
  if (c >= channels || row >= rows) return;
  MapRowsAt<kCount>(row * channels + c, uint64_t{threads_down} * channels, rows - row, threads_down,
                    op.ViewOf(c), y, x...);
}

// Sets y[i] to op.ViewOf(c)(k, x[i]...) for all elements i, where element i belongs to channel
// c + k.
template <uint32_t kCount, typename Op, typename T, typename... X>
int Map(DeviceStream stream, const DeviceNorm& norm, const Op& op, T* y, const X*... x) {
  const uint32_t num_packs = norm.channels / kCount, threads_across = ThreadsAcross(num_packs);
  const uint64_t rows_at_once = uint64_t{kMapThreads} / threads_across * kMapRows;
  const auto blocks = static_cast<uint32_t>((norm.rows + rows_at_once - 1) / rows_at_once);
  return Launch(MapRows<kCount, Op, T, X...>, blocks * ColumnGroups(num_packs, threads_across),
                kMapThreads, stream, norm.rows, norm.channels, threads_across, op, y, x...);
}

// The backward pass. kAdded: the forward pass added an input before a ReLU.
template <typename T, uint32_t kCount, bool kAdded>
int Backward(DeviceStream stream, const DeviceNorm& norm, const DeviceNormState& state,
             const DeviceNormBackward& arrays, T* dx, const ParameterGradients& gradients) {
  const auto *x = static_cast<const T*>(arrays.x), *dy = static_cast<const T*>(arrays.dy);
  auto* g = static_cast<T*>(arrays.g);
  const GradientsSource<T, kCount, kAdded> source{
      state, norm.has_relu, x, dy, static_cast<const T*>(arrays.y), g};
  const int error =
      SumColumns<kCount>(stream, norm.rows, norm.channels, source, state.workspace, gradients);
  if (error != 0) return error;
  if (norm.has_relu && !kAdded) {
    return Map<kCount>(stream, norm,
                       InputGradientOp<kCount, true>{state, gradients.slope, gradients.offset}, dx,
                       x, dy);
  }
  return Map<kCount>(stream, norm,
                     InputGradientOp<kCount, false>{state, gradients.slope, gradients.offset}, dx,
                     x, kAdded ? static_cast<const T*>(g) : dy);
}

}  // namespace

int BatchNormForwardOnDevice(DeviceStream stream, DeviceType type, const DeviceNorm& norm,
                             const DeviceNormState& state, bool is_training, const void* x,
                             const void* r, void* y) {
  return DispatchTypeAndPack(type, norm.channels, [&]<typename T, uint32_t kCount>() {
    const auto* input = static_cast<const T*>(x);
    const ScaleSetter<T> set_scale{norm, state, is_training, input};
    const int error =
        is_training && state.sums == nullptr
            ? SumColumns<kCount>(stream, norm.rows, norm.channels, MomentsSource<T, kCount>{input},
                                 state.workspace, set_scale)
            : ForEach(stream, norm.channels, set_scale);
    if (error != 0 || y == nullptr) return error;
    const OutputOp<kCount> output_op{state, norm.has_relu};
    auto* output = static_cast<T*>(y);
    if (r == nullptr) return Map<kCount>(stream, norm, output_op, output, input);
    return Map<kCount>(stream, norm, output_op, output, input, static_cast<const T*>(r));
  });
}

int NormalizeOnDevice(DeviceStream stream, DeviceType type, uint64_t rows, uint32_t channels,
                      const void* x, const void* norm, void* y) {
  return DispatchTypeAndPack(type, channels, [&]<typename T, uint32_t kCount>() {
    const auto* scales = static_cast<const T*>(norm);
    return Map<kCount>(stream, DeviceNorm{rows, channels},
                       NormalizeOp<T, kCount>{scales, scales + channels}, static_cast<T*>(y),
                       static_cast<const T*>(x));
  });
}

int BatchNormBackwardOnDevice(DeviceStream stream, DeviceType type, const DeviceNorm& norm,
                              const DeviceNormState& state, const DeviceNormBackward& arrays,
                              const DeviceStep* step, float* sums, void* dx, float* gamma_gradient,
                              float* beta_gradient) {
  const ParameterGradients gradients{state.scale,
                                     state.inverse,
                                     step,
                                     static_cast<double>(norm.rows),
                                     norm.has_constant_moments,
                                     sums,
                                     sums + norm.channels,
                                     gamma_gradient,
                                     beta_gradient};
  return DispatchTypeAndPack(type, norm.channels, [&]<typename T, uint32_t kCount>() {
    auto* input_gradient = static_cast<T*>(dx);
    if (arrays.g == nullptr)
      return Backward<T, kCount, false>(stream, norm, state, arrays, input_gradient, gradients);
    return Backward<T, kCount, true>(stream, norm, state, arrays, input_gradient, gradients);
  });
}

}  // namespace tern::kernels
