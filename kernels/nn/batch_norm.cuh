// What both passes of a batch norm on a GPU use (batch_norm.h): the scaling of a channel, and the
// pass over the elements of an array [rows, channels]. For .cu files only.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/elements.cuh"

namespace tern::kernels {

// Loads kCount neighbouring floats, aligned to 16 bytes if kCount is above 1.
template <uint32_t kCount>
__device__ void LoadChannelValues(const float* values, float* v) {
  constexpr uint32_t kAtOnce = kCount == 1 ? 1 : kPackElements<float>;
#pragma unroll
  for (uint32_t k = 0; k < kCount; k += kAtOnce) Load<kAtOnce>(values + k, v + k);
}

// Computes scale x + shift. If the forward pass added no input before the ReLU, the backward pass
// repeats exactly this computation to find the sign of the output.
struct Scaling {
  float scale, shift;
  __device__ float operator()(float x) const { return fmaf(scale, x, shift); }
};
// Of DeviceNormState, what the passes over the elements read: kernels with more arguments than they
// need spill registers.
struct NormValues {
  const float *mean, *scale, *shift;
};
// Loads scale and shift of channels [c, c + kCount).
template <uint32_t kCount>
__device__ void LoadScaling(const NormValues& values, uint32_t c, Scaling* scaling) {
  float scale[kCount], shift[kCount];
  LoadChannelValues<kCount>(values.scale + c, scale);
  LoadChannelValues<kCount>(values.shift + c, shift);
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) scaling[k] = {scale[k], shift[k]};
}

constexpr uint32_t kMapThreads = 128;  // threads per block
constexpr uint32_t kMapRows = 4;       // rows that a thread processes at once

// The threads of a block are arranged in rows, as in column_sums.cuh. Returns the threads per row:
// the least power of 2 that is at least `num_packs`, but at most 32.
inline uint32_t ThreadsAcross(uint32_t num_packs) {
  return std::min(std::bit_ceil(num_packs), 32u);
}

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

}  // namespace tern::kernels
