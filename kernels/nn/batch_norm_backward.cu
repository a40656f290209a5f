// The backward pass of a batch norm (batch_norm.h) on a GPU, for arrays [rows, channels]: two sums
// per channel (column_sums.cuh), if these are not known, and then one pass over the elements.
#include <cuda_runtime.h>

#include "kernels/nn/batch_norm.cuh"
#include "kernels/nn/column_sums.cuh"

namespace tern::kernels {
namespace {

// A source for SumColumns: sums of g and g (x - mean) (batch_norm.h). If the forward pass added an
// input before a ReLU (kAdded), reads the output from y, and stores g.
template <typename T, uint32_t kCount, bool kAdded>
struct GradientsSource {
  NormValues values;
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
    LoadChannelValues<kCount>(values.mean + c, view.mean);
    if constexpr (!kAdded) LoadScaling<kCount>(values, c, view.scaling);
    return view;
  }
};

// Computes g from x and dy.
template <uint32_t kCount>
struct MaskOp {
  NormValues values;
  struct ChannelView {
    Scaling scaling[kCount];
    __device__ float operator()(uint32_t k, float x, float dy) const {
      return scaling[k](x) <= 0 ? 0 : dy;
    }
  };
  __device__ ChannelView ViewOf(uint32_t c) const {
    ChannelView view;
    LoadScaling<kCount>(values, c, view.scaling);
    return view;
  }
};

// Stores the sums of GradientsSource as NormArrays has them.
struct StoreGradientSums {
  const float* inverses;
  float *products, *gradient_sums;
  using Inputs = float;  // the inverse deviation
  __device__ Inputs Load(uint64_t c) const { return inverses[c]; }
  __device__ void operator()(uint64_t c, const TwoSums& sums, Inputs inverse) const {
    gradient_sums[c] = static_cast<float>(sums.first);
    products[c] = static_cast<float>(sums.second * inverse);
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

// The same from the sums that NormArrays has.
struct ParameterGradientsOfKnownSums {
  ParameterGradients gradients;
  const float *products, *sums;
  __device__ void operator()(uint64_t c) const {
    const ParameterGradients::Inputs inputs = gradients.Load(c);
    gradients(c, {sums[c], double{products[c]} / inputs.inverse}, inputs);
  }
};

// Computes dx = scale g + (slope (x - mean) + offset) of one element. Subtracting the mean first
// avoids cancellation for large means. kMasks: the second input is dy, and the ReLU's mask gives
// g; otherwise, the second input is g.
template <uint32_t kCount, bool kMasks>
struct InputGradientOp {
  NormValues values;
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
    LoadChannelValues<kCount>(values.scale + c, view.scale);
    if constexpr (kMasks) LoadChannelValues<kCount>(values.shift + c, view.shift);
    LoadChannelValues<kCount>(values.mean + c, view.mean);
    LoadChannelValues<kCount>(slope + c, view.slope);
    LoadChannelValues<kCount>(offset + c, view.offset);
    return view;
  }
};

// The backward pass. kAdded: the forward pass added an input before a ReLU.
template <typename T, uint32_t kCount, bool kAdded>
int Backward(DeviceStream stream, const DeviceNorm& norm, const DeviceNormState& state,
             const DeviceNormBackward& arrays, T* dx, const ParameterGradients& gradients) {
  const auto *x = static_cast<const T*>(arrays.x), *dy = static_cast<const T*>(arrays.dy);
  auto* g = static_cast<T*>(arrays.g);
  const NormValues values{state.mean, state.scale, state.shift};
  const GradientsSource<T, kCount, kAdded> source{
      values, norm.has_relu, x, dy, static_cast<const T*>(arrays.y), g};
  const bool is_g = arrays.sums != nullptr;
  const int error =
      is_g ? ForEach(stream, norm.channels,
                     ParameterGradientsOfKnownSums{gradients, arrays.products, arrays.sums})
           : SumColumns<kCount>(stream, norm.rows, norm.channels, source, state.workspace,
                                gradients);
  if (error != 0) return error;
  if (norm.has_relu && !kAdded && !is_g) {
    return Map<kCount>(stream, norm,
                       InputGradientOp<kCount, true>{values, gradients.slope, gradients.offset}, dx,
                       x, dy);
  }
  return Map<kCount>(stream, norm,
                     InputGradientOp<kCount, false>{values, gradients.slope, gradients.offset}, dx,
                     x, kAdded ? static_cast<const T*>(g) : dy);
}

}  // namespace

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

int NormGradientOnDevice(DeviceStream stream, DeviceType type, uint64_t rows, uint32_t channels,
                         const void* x, const NormArrays& arrays, void* workspace, void* gradient) {
  ColumnWorkspace column_workspace;
  const int error = MakeWorkspace(stream, rows, channels, workspace, &column_workspace);
  if (error != 0) return error;
  return DispatchTypeAndPack(type, channels, [&]<typename T, uint32_t kCount>() {
    const NormValues values{arrays.mean, arrays.scale, arrays.shift};
    const auto* input = static_cast<const T*>(x);
    auto* g = static_cast<T*>(gradient);
    const int mask_error = Map<kCount>(stream, DeviceNorm{rows, channels}, MaskOp<kCount>{values},
                                       g, input, static_cast<const T*>(g));
    if (mask_error != 0) return mask_error;
    const GradientsSource<T, kCount, /*kAdded=*/false> source{
        values, /*has_relu=*/false, input, g, nullptr, nullptr};
    return SumColumns<kCount>(stream, rows, channels, source, column_workspace,
                              StoreGradientSums{arrays.inverse, arrays.products, arrays.sums});
  });
}

}  // namespace tern::kernels
