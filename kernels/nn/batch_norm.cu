// The forward pass of a batch norm (batch_norm.h) on a GPU, for arrays [rows, channels]. In
// training it computes two sums per channel (column_sums.cuh), if these are not known, and then
// makes one pass over the elements.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/nn/batch_norm.cuh"
#include "kernels/nn/column_sums.cuh"

namespace tern::kernels {
namespace {

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
    if (state.rounded != nullptr) return SetRounded(c, inputs, mean, inverse);
    state.scale[c] = static_cast<float>(inputs.gamma * inverse);
    state.shift[c] = static_cast<float>(inputs.beta - mean * inputs.gamma * inverse);
  }
  __device__ void SetRounded(uint64_t c, const Inputs& inputs, double mean, double inverse) const {
    auto *scales = static_cast<T*>(state.rounded), *shifts = scales + norm.channels;
    const double limit = 0x1p15 / fmax(1.0, fabs(mean)), scale = inputs.gamma * inverse;
    const bool is_finite = fabs(scale + inputs.beta + mean) < INFINITY;
    scales[c] = FromFloat<T>(is_finite ? static_cast<float>(fmax(-limit, fmin(limit, scale))) : 0);
    state.scale[c] = AsFloat(scales[c]);
    shifts[c] = FromFloat<T>(is_finite ? static_cast<float>(inputs.beta - mean * state.scale[c])
                                       : INFINITY);
    state.shift[c] = AsFloat(shifts[c]);
    state.gain[c] = static_cast<float>(state.scale[c] / inverse);
    state.bias[c] = static_cast<float>(state.shift[c] + mean * state.scale[c]);
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
  NormValues values;
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
    LoadScaling<kCount>(values, c, view.scaling);
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
    const OutputOp<kCount> output_op{{state.mean, state.scale, state.shift}, norm.has_relu};
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

}  // namespace tern::kernels
