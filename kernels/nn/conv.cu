// Direct convolution (conv.h). A thread computes one output, or the gradient of one input. One or
// several threads compute the gradient of a weight. A "tap" is an element of the window of a
// convolution.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/device/tiling.h"
#include "kernels/nn/column_sums.cuh"
#include "kernels/nn/conv.h"
#include "kernels/nn/device_images.h"

namespace tern::kernels {
namespace {

// The position of a pixel: image, row and column.
struct Pixel {
  uint32_t n, h, w;
};

// The position of pixel number i of all images.
__device__ Pixel PixelOf(uint64_t i, const DeviceImages& images) {
  const auto w = static_cast<uint32_t>(i % images.w);
  const uint64_t row = i / images.w;
  return {static_cast<uint32_t>(row / images.h), static_cast<uint32_t>(row % images.h), w};
}

// The index of the first channel of a pixel.
__device__ uint64_t OffsetOf(const Pixel& p, const DeviceImages& images) {
  return ((uint64_t{p.n} * images.h + p.h) * images.w + p.w) * images.c;
}

// Finds the input that output `out` reads with tap `tap`, along one axis of `num_inputs` inputs.
// Returns false if the output reads padding there.
__device__ bool FindInput(const DeviceAxis& axis, uint32_t out, uint32_t tap, uint32_t num_inputs,
                          uint32_t* in) {
  const uint32_t padded_position = out * axis.stride + tap * axis.dilation;
  if (padded_position < axis.pad || padded_position - axis.pad >= num_inputs) return false;
  *in = padded_position - axis.pad;
  return true;
}

// Finds the output that reads input `in` with tap `tap`, along one axis of `num_outputs` outputs.
// Returns false if there is none.
__device__ bool FindOutput(const DeviceAxis& axis, uint32_t in, uint32_t tap, uint32_t num_outputs,
                           uint32_t* out) {
  const uint32_t padded_position = in + axis.pad, tap_offset = tap * axis.dilation;
  if (padded_position < tap_offset || (padded_position - tap_offset) % axis.stride != 0)
    return false;
  *out = (padded_position - tap_offset) / axis.stride;
  return *out < num_outputs;
}

// Computes output element i.
template <typename T>
struct Forward {
  DeviceSlide slide;
  uint32_t groups;
  const T *x, *weight, *bias;
  T* y;

  __device__ void operator()(uint64_t i) const {
    const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
    const auto o = static_cast<uint32_t>(i % slide.out.c);
    const Pixel out_pixel = PixelOf(i / slide.out.c, slide.out);
    const uint32_t inputs = slide.in.c / groups, first_input = o / (slide.out.c / groups) * inputs;
    const T* output_weights = weight + uint64_t{o} * inputs * rows.kernel * columns.kernel;
    float sum = bias == nullptr ? 0 : AsFloat(bias[o]);
    Pixel in_pixel{out_pixel.n, 0, 0};
    for (uint32_t kh = 0; kh < rows.kernel; ++kh) {
      if (!FindInput(rows, out_pixel.h, kh, slide.in.h, &in_pixel.h)) continue;
      for (uint32_t kw = 0; kw < columns.kernel; ++kw) {
        if (!FindInput(columns, out_pixel.w, kw, slide.in.w, &in_pixel.w)) continue;
        const T* pixel = x + OffsetOf(in_pixel, slide.in) + first_input;
        const T* tap_weights = output_weights + (kh * columns.kernel + kw) * inputs;
        for (uint32_t k = 0; k < inputs; ++k) sum += AsFloat(pixel[k]) * AsFloat(tap_weights[k]);
      }
    }
    y[i] = FromFloat<T>(sum);
  }
};

// Computes the gradient of input element i.
template <typename T>
struct BackwardData {
  DeviceSlide slide;
  uint32_t groups;
  const T *dy, *weight;
  T* dx;

  __device__ void operator()(uint64_t i) const {
    const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
    const auto c = static_cast<uint32_t>(i % slide.in.c);
    const Pixel in_pixel = PixelOf(i / slide.in.c, slide.in);
    const uint32_t inputs = slide.in.c / groups, outputs = slide.out.c / groups;
    const uint32_t first_output = c / inputs * outputs;
    float sum = 0;
    Pixel out_pixel{in_pixel.n, 0, 0};
    for (uint32_t kh = 0; kh < rows.kernel; ++kh) {
      if (!FindOutput(rows, in_pixel.h, kh, slide.out.h, &out_pixel.h)) continue;
      for (uint32_t kw = 0; kw < columns.kernel; ++kw) {
        if (!FindOutput(columns, in_pixel.w, kw, slide.out.w, &out_pixel.w)) continue;
        const T* pixel = dy + OffsetOf(out_pixel, slide.out) + first_output;
        for (uint32_t o = 0; o < outputs; ++o) {
          const uint64_t tap =
              (uint64_t{first_output + o} * rows.kernel + kh) * columns.kernel + kw;
          sum += AsFloat(pixel[o]) * AsFloat(weight[tap * inputs + c % inputs]);
        }
      }
    }
    dx[i] = FromFloat<T>(sum);
  }
};

// Computes the gradient of weight i from all rows of all output images.
template <typename T>
struct BackwardWeights {
  DeviceSlide slide;
  uint32_t groups;
  const T *x, *dy;
  T* gradient;

  // The part of the gradient of weight i that comes from rows first, first + step, ... of all
  // output images.
  __device__ double SumForWeight(uint64_t i, uint64_t first, uint64_t step) const {
    const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
    const uint32_t inputs = slide.in.c / groups;
    const auto input = static_cast<uint32_t>(i % inputs);
    uint64_t position = i / inputs;
    const auto kw = static_cast<uint32_t>(position % columns.kernel);
    position /= columns.kernel;
    const auto kh = static_cast<uint32_t>(position % rows.kernel);
    const auto o = static_cast<uint32_t>(position / rows.kernel);
    const uint32_t c = o / (slide.out.c / groups) * inputs + input;
    const uint64_t total_rows = uint64_t{slide.out.n} * slide.out.h;
    // Outputs [begin, end) of a row read no padding with this tap.
    const uint32_t tap_offset = kw * columns.dilation, input_end = columns.pad + slide.in.w;
    const uint32_t begin =
        tap_offset < columns.pad ? DivideUp(columns.pad - tap_offset, columns.stride) : 0;
    const uint32_t num_reads =
        tap_offset < input_end ? DivideUp(input_end - tap_offset, columns.stride) : 0;
    const uint32_t end = num_reads < slide.out.w ? num_reads : slide.out.w;
    double sum = 0;
    for (uint64_t row = first; row < total_rows; row += step) {
      const Pixel out_pixel{static_cast<uint32_t>(row / slide.out.h),
                            static_cast<uint32_t>(row % slide.out.h), begin};
      Pixel in_pixel{out_pixel.n, 0, begin * columns.stride + tap_offset - columns.pad};
      if (begin >= end || !FindInput(rows, out_pixel.h, kh, slide.in.h, &in_pixel.h)) continue;
      const T* input_at = x + OffsetOf(in_pixel, slide.in) + c;
      const T* gradient_at = dy + OffsetOf(out_pixel, slide.out) + o;
#pragma unroll 4
      for (uint32_t w = begin; w < end; ++w) {
        sum += double{AsFloat(*input_at)} * AsFloat(*gradient_at);
        input_at += uint64_t{columns.stride} * slide.in.c;
        gradient_at += slide.out.c;
      }
    }
    return sum;
  }
  __device__ static uint32_t DivideUp(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
  __device__ void StoreGradient(uint64_t i, double sum) const {
    gradient[i] = FromFloat<T>(static_cast<float>(sum));
  }
  __device__ void operator()(uint64_t i) const { StoreGradient(i, SumForWeight(i, 0, 1)); }
};

// Computes the gradients of weights if there are too few weights to keep the GPU busy with one
// thread each. Several threads of a block add different output rows for the same weight. A block
// processes `block_weights` neighbouring weights, which read the same pixels or channels.
template <typename T>
__global__ void __launch_bounds__(kSumThreads)
    SumWeightGradients(uint64_t num_weights, uint32_t block_weights, BackwardWeights<T> work) {
  __shared__ double sums[1][kSumThreads];
  const uint64_t i = uint64_t{blockIdx.x} * block_weights + threadIdx.x % block_weights;
  sums[0][threadIdx.x] = i < num_weights ? work.SumForWeight(i, threadIdx.x / block_weights,
                                                             kSumThreads / block_weights)
                                         : 0;
  FoldColumns<1>(block_weights, sums);
  if (threadIdx.x < block_weights && i < num_weights) work.StoreGradient(i, sums[0][threadIdx.x]);
}

// Chooses between one and several threads per weight.
template <typename T>
int LaunchBackwardWeights(cudaStream_t stream, uint64_t num_weights,
                          const BackwardWeights<T>& work) {
  constexpr uint64_t kFewRows = 64, kManyWeights = 1 << 18, kEnoughBlocks = 256;
  if (uint64_t{work.slide.out.n} * work.slide.out.h < kFewRows || num_weights >= kManyWeights)
    return ForEach(stream, num_weights, work);
  uint32_t block_weights = 1;
  while (block_weights < 32 && num_weights >= 2 * block_weights * kEnoughBlocks) block_weights *= 2;
  const auto blocks = static_cast<uint32_t>((num_weights + block_weights - 1) / block_weights);
  return Launch(SumWeightGradients<T>, blocks, kSumThreads, stream, num_weights, block_weights,
                work);
}

// A source for SumColumns (column_sums.cuh) that adds the elements themselves.
template <typename T, uint32_t kCount>
struct ColumnsSource {
  using RawPack = Raw<T, kCount>;
  const T* x;
  __device__ ColumnsSource ViewOf(uint32_t) const { return *this; }
  __device__ RawPack LoadRow(uint64_t i) const { return LoadRaw<kCount>(x + i); }
  __device__ void Add(const RawPack& row, uint64_t, float* first, float*) const {
    float v[kCount];
    AsFloats<T, kCount>(row, v);
    for (uint32_t k = 0; k < kCount; ++k) first[k] += v[k];
  }
};

// A source for SumColumns that adds the elements and their squares.
template <typename T, uint32_t kCount>
struct SquaresSource {
  using RawPack = Raw<T, kCount>;
  const T* x;
  __device__ SquaresSource ViewOf(uint32_t) const { return *this; }
  __device__ RawPack LoadRow(uint64_t i) const { return LoadRaw<kCount>(x + i); }
  __device__ void Add(const RawPack& row, uint64_t, float* first, float* second) const {
    float v[kCount];
    AsFloats<T, kCount>(row, v);
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) {
      first[k] += v[k];
      second[k] = fmaf(v[k], v[k], second[k]);
    }
  }
};

struct StoreBothSums {
  float *sums, *squares;
  struct Inputs {};  // It needs nothing but the sums.
  __device__ Inputs Load(uint64_t) const { return {}; }
  __device__ void operator()(uint64_t c, const TwoSums& pair, const Inputs&) const {
    sums[c] = static_cast<float>(pair.first);
    squares[c] = static_cast<float>(pair.second);
  }
};

struct StoreSum {
  const DeviceStep* step;
  float* sums;
  using Inputs = float;  // step->inverse_scale
  __device__ Inputs Load(uint64_t) const { return step->inverse_scale; }
  __device__ void operator()(uint64_t c, const TwoSums& pair, Inputs inverse_scale) const {
    sums[c] = static_cast<float>(pair.first * inverse_scale);
  }
};

}  // namespace

int ConvForwardOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                        uint32_t groups, const void* x, const void* weight, const void* bias,
                        void* y) {
  return DispatchType(type, [&]<typename T>() {
    return ForEach(
        stream, slide.out.size(),
        Forward<T>{slide, groups, static_cast<const T*>(x), static_cast<const T*>(weight),
                   static_cast<const T*>(bias), static_cast<T*>(y)});
  });
}

int ConvBackwardDataOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                             uint32_t groups, const void* dy, const void* weight, void* dx) {
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, slide.in.size(),
                   BackwardData<T>{slide, groups, static_cast<const T*>(dy),
                                   static_cast<const T*>(weight), static_cast<T*>(dx)});
  });
}

int ConvBackwardWeightsOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                                uint32_t groups, const void* x, const void* dy,
                                void* weight_gradient) {
  const uint64_t taps = uint64_t{slide.window.rows.kernel} * slide.window.columns.kernel;
  return DispatchType(type, [&]<typename T>() {
    return LaunchBackwardWeights(
        stream, uint64_t{slide.out.c} * (slide.in.c / groups) * taps,
        BackwardWeights<T>{slide, groups, static_cast<const T*>(x), static_cast<const T*>(dy),
                           static_cast<T*>(weight_gradient)});
  });
}

int ColumnSumsOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t rows,
                       uint32_t columns, const DeviceStep* step, const ColumnWorkspace& workspace,
                       float* sums) {
  return DispatchTypeAndPack(type, columns, [&]<typename T, uint32_t kCount>() {
    return SumColumns<kCount>(stream, rows, columns,
                              ColumnsSource<T, kCount>{static_cast<const T*>(x)}, workspace,
                              StoreSum{step, sums});
  });
}

int ColumnMomentsOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t rows,
                          uint32_t columns, void* workspace, float* sums) {
  ColumnWorkspace arrays;
  const int error = MakeWorkspace(stream, rows, columns, workspace, &arrays);
  if (error != 0) return error;
  return DispatchTypeAndPack(type, columns, [&]<typename T, uint32_t kCount>() {
    return SumColumns<kCount>(stream, rows, columns,
                              SquaresSource<T, kCount>{static_cast<const T*>(x)}, arrays,
                              StoreBothSums{sums, sums + columns});
  });
}

}  // namespace tern::kernels
