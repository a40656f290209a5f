// Depthwise convolution (depthwise.h). A block processes up to 64 neighbouring channels; a thread
// processes a pack of them (elements.cuh): `across` threads next to each other have the packs of
// one pixel. A "tap" is an element of the window.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>

#include "kernels/nn/column_sums.cuh"
#include "kernels/nn/depthwise.h"
#include "kernels/nn/elements.cuh"

namespace tern::kernels {
namespace {

constexpr uint32_t kWindow = 3, kTaps = kWindow * kWindow;
constexpr uint32_t kThreads = kSumThreads;
constexpr uint32_t kMaxAcross = 8;
constexpr uint32_t kStrip = 4;  // neighbouring columns that a thread computes

// How the channels are divided among blocks and threads.
struct Channels {
  uint32_t count;   // of the images
  uint32_t across;  // threads with packs of one pixel, a power of 2
  uint32_t groups;  // blocks that process all channels of some pixels together
};
template <uint32_t kCount>
Channels ChannelsOf(uint32_t count) {
  const uint32_t packs = (count + kCount - 1) / kCount;
  const uint32_t across = std::min(std::bit_ceil(packs), kMaxAcross);
  return {count, across, (packs + across - 1) / across};
}

// What a thread processes: its first channel, and its number among the threads of the launch with
// the same channels.
struct Place {
  uint32_t channel, slot;
};
template <uint32_t kCount>
__device__ Place PlaceOf(const Channels& channels) {
  const uint32_t group = blockIdx.x % channels.groups, block = blockIdx.x / channels.groups;
  return {(group * channels.across + threadIdx.x % channels.across) * kCount,
          block * (kThreads / channels.across) + threadIdx.x / channels.across};
}

// The weights of a block's channels as floats, tap by tap.
template <uint32_t kCount>
using BlockTaps = float[kTaps][kMaxAcross * kCount];

// Loads the weights of the block's channels. Called by all threads of a block.
template <uint32_t kCount, typename T>
__device__ void LoadTaps(const Channels& channels, const T* weight, BlockTaps<kCount>& taps) {
  const uint32_t num_channels = channels.across * kCount;
  const uint32_t first = blockIdx.x % channels.groups * num_channels;
  for (uint32_t i = threadIdx.x; i < num_channels * kTaps; i += kThreads) {
    const uint32_t channel = i / kTaps;
    if (first + channel < channels.count)
      taps[i % kTaps][channel] = AsFloat(weight[uint64_t{first} * kTaps + i]);
  }
  __syncthreads();
}

template <uint32_t kCount>
__device__ void AddProducts(const float* v, const float* tap, float* sums) {
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) sums[k] += v[k] * tap[k];
}

// An output row: a thread computes kStrip neighbouring elements of it. `from` are the images that
// are read, and `to` those that are written.
struct Strips {
  DeviceImages from, to;
  uint32_t pad_rows, pad_columns;
  uint32_t in_a_row;  // strips
};

// Reads `from` as the forward pass does: element o of `to` reads o * kStride + tap - pad. In the
// backward pass with stride 1, `from` are the gradients, and the taps are read backwards.
template <uint32_t kStride, bool kReversed>
struct Sliding {
  template <uint32_t kCount, typename T>
  __device__ static void AddRow(const Strips& strips, uint32_t row, uint32_t tap_row,
                                uint32_t first, const T* image, const BlockTaps<kCount>& taps,
                                uint32_t lane, float (*sums)[kCount]) {
    const uint32_t padded_row = row * kStride + tap_row;
    if (padded_row < strips.pad_rows || padded_row - strips.pad_rows >= strips.from.h) return;
    const T* from_row =
        image + uint64_t{padded_row - strips.pad_rows} * strips.from.w * strips.from.c;
#pragma unroll
    for (uint32_t j = 0; j < (kStrip - 1) * kStride + kWindow; ++j) {
      const uint32_t padded = first * kStride + j;
      if (padded < strips.pad_columns || padded - strips.pad_columns >= strips.from.w) continue;
      float v[kCount];
      Load<kCount>(from_row + uint64_t{padded - strips.pad_columns} * strips.from.c, v);
#pragma unroll
      for (uint32_t o = 0; o < kStrip; ++o) {
        if (j < o * kStride || j - o * kStride >= kWindow) continue;
        const uint32_t tap = tap_row * kWindow + j - o * kStride;
        AddProducts<kCount>(v, &taps[kReversed ? kTaps - 1 - tap : tap][lane], sums[o]);
      }
    }
  }
};

// Reads `from`, the gradients of the output of a convolution with stride 2, as its backward pass
// does: element i of `to` reads (i + pad - tap) / 2 where that is an integer.
struct Gathering {
  template <uint32_t kCount, typename T>
  __device__ static void AddRow(const Strips& strips, uint32_t row, uint32_t tap_row,
                                uint32_t first, const T* image, const BlockTaps<kCount>& taps,
                                uint32_t lane, float (*sums)[kCount]) {
    const uint32_t twice_row = row + strips.pad_rows - tap_row;
    if (row + strips.pad_rows < tap_row || twice_row % 2 != 0 || twice_row / 2 >= strips.from.h)
      return;
    const T* from_row = image + uint64_t{twice_row / 2} * strips.from.w * strips.from.c;
#pragma unroll
    for (uint32_t o = 0; o < kStrip; ++o) {
#pragma unroll
      for (uint32_t tap_column = 0; tap_column < kWindow; ++tap_column) {
        const uint32_t padded = first + o + strips.pad_columns, twice = padded - tap_column;
        if (padded < tap_column || twice % 2 != 0 || twice / 2 >= strips.from.w) continue;
        float v[kCount];
        Load<kCount>(from_row + uint64_t{twice / 2} * strips.from.c, v);
        AddProducts<kCount>(v, &taps[tap_row * kWindow + tap_column][lane], sums[o]);
      }
    }
  }
};

template <typename Reading, typename T, uint32_t kCount>
__global__ void __launch_bounds__(kThreads, 2)
    ComputeStrips(Strips strips, Channels channels, const T* from, const T* weight, const T* bias,
                  T* to) {
  __shared__ BlockTaps<kCount> taps;
  LoadTaps<kCount>(channels, weight, taps);
  const auto [channel, slot] = PlaceOf<kCount>(channels);
  const uint32_t first = slot % strips.in_a_row * kStrip, rows_before = slot / strips.in_a_row;
  const uint32_t row = rows_before % strips.to.h, n = rows_before / strips.to.h;
  if (channel >= channels.count || n >= strips.to.n) return;
  float sums[kStrip][kCount] = {};
  if (bias != nullptr) {
    Load<kCount>(bias + channel, sums[0]);
    for (uint32_t o = 1; o < kStrip; ++o)
      for (uint32_t k = 0; k < kCount; ++k) sums[o][k] = sums[0][k];
  }
  const T* image = from + uint64_t{n} * strips.from.h * strips.from.w * strips.from.c + channel;
#pragma unroll
  for (uint32_t tap_row = 0; tap_row < kWindow; ++tap_row)
    Reading::template AddRow<kCount>(strips, row, tap_row, first, image, taps,
                                     threadIdx.x % channels.across * kCount, sums);
  const uint64_t pixel = (uint64_t{n} * strips.to.h + row) * strips.to.w + first;
#pragma unroll
  for (uint32_t o = 0; o < kStrip; ++o) {
    if (first + o >= strips.to.w) break;
    Store<kCount>(sums[o], to + (pixel + o) * strips.to.c + channel);
  }
}

// The arrays of a pass that writes images.
struct Pass {
  Strips strips;
  const void *from, *weight, *bias;
  void* to;
};

template <typename Reading>
int LaunchStrips(cudaStream_t stream, DeviceType type, const Pass& pass) {
  const Strips& strips = pass.strips;
  return DispatchTypeAndPack(type, strips.to.c, [&]<typename T, uint32_t kCount>() {
    const Channels channels = ChannelsOf<kCount>(strips.to.c);
    const uint64_t slots = uint64_t{strips.to.n} * strips.to.h * strips.in_a_row;
    const uint32_t slots_a_block = kThreads / channels.across;
    const auto blocks =
        static_cast<uint32_t>((slots + slots_a_block - 1) / slots_a_block * channels.groups);
    return Launch(ComputeStrips<Reading, T, kCount>, blocks, kThreads, stream, strips, channels,
                  static_cast<const T*>(pass.from), static_cast<const T*>(pass.weight),
                  static_cast<const T*>(pass.bias), static_cast<T*>(pass.to));
  });
}

uint32_t StripsInARow(const DeviceImages& images) { return (images.w + kStrip - 1) / kStrip; }

// Each of `shares` blocks of a group of channels adds a share of the output rows.
struct WeightShares {
  Channels channels;
  uint32_t shares;
};
template <uint32_t kCount>
WeightShares WeightSharesOf(const DeviceImages& out) {
  constexpr uint32_t kMaxBlocks = 512, kMinRows = 4;  // rows that a thread adds
  const Channels channels = ChannelsOf<kCount>(out.c);
  const uint64_t slots = kThreads / channels.across;
  const uint64_t max_shares = std::max(kMaxBlocks / channels.groups, 1u);
  return {channels, static_cast<uint32_t>(std::clamp<uint64_t>(
                        uint64_t{out.n} * out.h / (slots * kMinRows), 1, max_shares))};
}

// Adds the products of an output row with the inputs under each tap.
template <uint32_t kCount, typename T>
__device__ void AddRowToTaps(const DeviceSlide& slide, uint32_t n, uint32_t h, uint32_t channel,
                             const T* x, const T* dy, float (*sums)[kCount]) {
  const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
  const T* gradient = dy + (uint64_t{n} * slide.out.h + h) * slide.out.w * slide.out.c + channel;
  const T* image = x + uint64_t{n} * slide.in.h * slide.in.w * slide.in.c + channel;
  for (uint32_t w = 0; w < slide.out.w; ++w, gradient += slide.out.c) {
    float g[kCount];
    Load<kCount>(gradient, g);
#pragma unroll
    for (uint32_t tap = 0; tap < kTaps; ++tap) {
      const uint32_t row = h * rows.stride + tap / kWindow;
      const uint32_t column = w * columns.stride + tap % kWindow;
      if (row < rows.pad || row - rows.pad >= slide.in.h || column < columns.pad ||
          column - columns.pad >= slide.in.w)
        continue;
      float v[kCount];
      Load<kCount>(
          image + (uint64_t{row - rows.pad} * slide.in.w + column - columns.pad) * slide.in.c, v);
      AddProducts<kCount>(v, g, sums[tap]);
    }
  }
}

// Writes the sums of a block's share to partial_sums[share][channel][tap].
template <typename T, uint32_t kCount>
__global__ void __launch_bounds__(kThreads, 2)
    SumTaps(DeviceSlide slide, WeightShares work, const T* x, const T* dy, double* partial_sums) {
  __shared__ double folded[kCount][kThreads];
  const Channels& channels = work.channels;
  const auto [channel, slot] = PlaceOf<kCount>(channels);
  float sums[kTaps][kCount] = {};
  const uint32_t slots = work.shares * (kThreads / channels.across);
  const uint32_t rows = slide.out.n * slide.out.h;
  if (channel < channels.count) {
    for (uint32_t row = slot; row < rows; row += slots)
      AddRowToTaps<kCount>(slide, row / slide.out.h, row % slide.out.h, channel, x, dy, sums);
  }
  const uint32_t share = blockIdx.x / channels.groups;
  double* share_sums = partial_sums + uint64_t{share} * channels.count * kTaps;
  for (uint32_t tap = 0; tap < kTaps; ++tap) {
    __syncthreads();  // Waits until the sums of the tap before have been read.
    for (uint32_t k = 0; k < kCount; ++k) folded[k][threadIdx.x] = sums[tap][k];
    FoldColumns<kCount>(channels.across, folded);
    if (threadIdx.x >= channels.across || channel >= channels.count) continue;
    for (uint32_t k = 0; k < kCount; ++k)
      share_sums[uint64_t{channel + k} * kTaps + tap] = folded[k][threadIdx.x];
  }
}

// Adds the shares of weight i.
template <typename T>
struct AddShares {
  const double* partial_sums;
  uint32_t shares;
  uint64_t num_weights;
  T* gradient;
  __device__ void operator()(uint64_t i) const {
    double sum = 0;
    for (uint32_t share = 0; share < shares; ++share)
      sum += partial_sums[uint64_t{share} * num_weights + i];
    gradient[i] = FromFloat<T>(static_cast<float>(sum));
  }
};

}  // namespace

bool IsDepthwise(const DeviceSlide& slide, uint32_t groups) {
  const auto fits = [](const DeviceAxis& axis) {
    return axis.kernel == kWindow && axis.dilation == 1 && axis.pad < kWindow;
  };
  const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
  return groups == slide.in.c && groups == slide.out.c && fits(rows) && fits(columns) &&
         rows.stride == columns.stride && (rows.stride == 1 || rows.stride == 2);
}

int DepthwiseForwardOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                             const void* x, const void* weight, const void* bias, void* y) {
  const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
  const Pass pass{
      {slide.in, slide.out, rows.pad, columns.pad, StripsInARow(slide.out)}, x, weight, bias, y};
  return rows.stride == 1 ? LaunchStrips<Sliding<1, false>>(stream, type, pass)
                          : LaunchStrips<Sliding<2, false>>(stream, type, pass);
}

int DepthwiseBackwardDataOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                                  const void* dy, const void* weight, void* dx) {
  const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
  Pass pass{{slide.out, slide.in, rows.pad, columns.pad, StripsInARow(slide.in)},
            dy,
            weight,
            nullptr,
            dx};
  if (rows.stride == 2) return LaunchStrips<Gathering>(stream, type, pass);
  pass.strips.pad_rows = kWindow - 1 - rows.pad;
  pass.strips.pad_columns = kWindow - 1 - columns.pad;
  return LaunchStrips<Sliding<1, true>>(stream, type, pass);
}

size_t DepthwiseWorkspaceBytes(DeviceType type, const DeviceSlide& slide) {
  return DispatchTypeAndPack(type, slide.out.c,
                             [&]<typename T, uint32_t kCount>() {
                               return static_cast<int>(WeightSharesOf<kCount>(slide.out).shares);
                             }) *
         size_t{slide.out.c} * kTaps * sizeof(double);
}

int DepthwiseBackwardWeightsOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                                     const void* x, const void* dy, void* workspace,
                                     void* weight_gradient) {
  return DispatchTypeAndPack(type, slide.out.c, [&]<typename T, uint32_t kCount>() {
    const WeightShares work = WeightSharesOf<kCount>(slide.out);
    auto* const partial_sums = static_cast<double*>(workspace);
    const int error =
        Launch(SumTaps<T, kCount>, work.channels.groups * work.shares, kThreads, stream, slide,
               work, static_cast<const T*>(x), static_cast<const T*>(dy), partial_sums);
    const uint64_t num_weights = uint64_t{slide.out.c} * kTaps;
    return error != 0 ? error
                      : ForEach(stream, num_weights,
                                AddShares<T>{partial_sums, work.shares, num_weights,
                                             static_cast<T*>(weight_gradient)});
  });
}

}  // namespace tern::kernels
