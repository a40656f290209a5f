// Max and average pooling on a GPU (pool.h). A thread computes kCount neighbouring channels of one
// pixel: one channel, or as many as fit in 16 bytes. The pixel is one of the output in the forward
// pass, and one of the input's gradient in the backward pass. A "tap" is the index of an element in
// a window.
#include <cuda_runtime.h>

#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/elements.cuh"
#include "kernels/nn/pool.h"
#include "kernels/nn/pool_math.h"

namespace tern::kernels {
namespace {

// Channel c of the pixel in row h and column w of image n.
struct ChannelPosition {
  uint32_t n, h, w, c;
};

// Divides *i by `divisor`, and returns the remainder. A division of 64-bit numbers takes many
// instructions, and is avoided for small *i.
__device__ uint32_t DivideBy(uint32_t divisor, uint64_t* i) {
  if (*i >> 32 == 0) {
    const auto small = static_cast<uint32_t>(*i);
    *i = small / divisor;
    return small % divisor;
  }
  const auto remainder = static_cast<uint32_t>(*i % divisor);
  *i /= divisor;
  return remainder;
}

// The position of the first channel of the i-th run of kCount channels.
template <uint32_t kCount>
__device__ ChannelPosition PositionOf(uint64_t i, const DeviceImages& images) {
  const uint32_t c = DivideBy(images.c / kCount, &i) * kCount;
  const uint32_t w = DivideBy(images.w, &i);
  const uint32_t h = DivideBy(images.h, &i);
  return {static_cast<uint32_t>(i), h, w, c};
}

// The index of the element at position p in the array of images.
__device__ uint64_t IndexOf(const ChannelPosition& p, const DeviceImages& images) {
  return ((uint64_t{p.n} * images.h + p.h) * images.w + p.w) * images.c + p.c;
}

// LoadTaps and StoreTaps copy the taps of kCount neighbouring channels at once.
template <uint32_t kCount>
using RawTaps =
    std::conditional_t<kCount == 8, float4, std::conditional_t<kCount == 4, uint64_t, uint16_t>>;
template <uint32_t kCount>
__device__ void LoadTaps(const uint16_t* from, uint16_t* taps) {
  static_assert(sizeof(RawTaps<kCount>) == kCount * sizeof(uint16_t));
  const RawTaps<kCount> raw = *reinterpret_cast<const RawTaps<kCount>*>(from);
  memcpy(taps, &raw, sizeof raw);
}
template <uint32_t kCount>
__device__ void StoreTaps(const uint16_t* taps, uint16_t* to) {
  RawTaps<kCount> raw;
  memcpy(&raw, taps, sizeof raw);
  *reinterpret_cast<RawTaps<kCount>*>(to) = raw;
}

constexpr uint32_t kTapsAtOnce = 3;  // how many taps of a row a thread loads before it uses one

template <typename T, uint32_t kCount>
struct MaxForward {
  DeviceSlide slide;
  const T* x;
  T* y;
  uint16_t* winner;

  __device__ void operator()(uint64_t i) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.out);
    const DeviceAxis &h_axis = slide.window.rows, &w_axis = slide.window.columns;
    const PoolSpan rows = InputsOf(h_axis, position.h, slide.in.h),
                   columns = InputsOf(w_axis, position.w, slide.in.w);
    float largest[kCount];
    uint16_t winner_taps[kCount];
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) {
      largest[k] = -INFINITY;
      winner_taps[k] = static_cast<uint16_t>(TapOf(h_axis, position.h, rows.begin) * w_axis.kernel +
                                             TapOf(w_axis, position.w, columns.begin));
    }
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      const uint32_t first_tap = TapOf(h_axis, position.h, h) * w_axis.kernel;
      for (uint32_t w = columns.begin; w < columns.end; w += kTapsAtOnce) {
        const T* from = x + IndexOf({position.n, h, w, position.c}, slide.in);
        Raw<T, kCount> raw[kTapsAtOnce];
#pragma unroll
        for (uint32_t t = 0; t < kTapsAtOnce; ++t)
          if (w + t < columns.end) raw[t] = LoadRaw<kCount>(from + uint64_t{t} * slide.in.c);
#pragma unroll
        for (uint32_t t = 0; t < kTapsAtOnce; ++t)
          if (w + t < columns.end)
            TakeLarger(raw[t], first_tap + TapOf(w_axis, position.w, w + t), largest, winner_taps);
      }
    }
    Store<kCount>(largest, y + i * kCount);
    StoreTaps<kCount>(winner_taps, winner + i * kCount);
  }
  __device__ static void TakeLarger(const Raw<T, kCount>& raw, uint32_t tap, float* largest,
                                    uint16_t* winner_taps) {
    float value[kCount];
    AsFloats<T, kCount>(raw, value);
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) {
      const bool is_nan = value[k] != value[k];
      if (!(value[k] > largest[k] || is_nan)) continue;
      largest[k] = value[k];
      winner_taps[k] = static_cast<uint16_t>(tap);
    }
  }
};

// A thread computes the gradients of kBackwardColumns neighbouring columns, so that it finds its
// position and rows once.
constexpr uint32_t kBackwardColumns = 4;

template <typename T, uint32_t kCount>
struct MaxBackward {
  DeviceSlide slide;
  DeviceImages threads;  // `slide.in` with runs of kBackwardColumns columns instead of columns
  const T* dy;
  const uint16_t* winner;
  T* dx;

  __device__ void operator()(uint64_t i) const {
    ChannelPosition position = PositionOf<kCount>(i, threads);
    position.w *= kBackwardColumns;
    const PoolSpan rows = OutputsOf(slide.window.rows, position.h, slide.out.h);
#pragma unroll 1
    for (uint32_t j = 0; j < kBackwardColumns && position.w < slide.in.w; ++j, ++position.w)
      StoreGradient(position, rows);
  }
  // `rows` are the output rows that read the position.
  __device__ void StoreGradient(const ChannelPosition& position, const PoolSpan& rows) const {
    const DeviceAxis &h_axis = slide.window.rows, &w_axis = slide.window.columns;
    const PoolSpan columns = OutputsOf(w_axis, position.w, slide.out.w);
    float sum[kCount] = {}, gradient[kCount];
    uint16_t winner_taps[kCount];
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      for (uint32_t w = columns.begin; w < columns.end; ++w) {
        const uint64_t out = IndexOf({position.n, h, w, position.c}, slide.out);
        const uint32_t tap =
            TapOf(h_axis, h, position.h) * w_axis.kernel + TapOf(w_axis, w, position.w);
        Load<kCount>(dy + out, gradient);
        LoadTaps<kCount>(winner + out, winner_taps);
#pragma unroll
        for (uint32_t k = 0; k < kCount; ++k) sum[k] += winner_taps[k] == tap ? gradient[k] : 0;
      }
    }
    Store<kCount>(sum, dx + IndexOf(position, slide.in));
  }
};

constexpr uint32_t kElementsAtOnce = 4;  // elements of a window that a thread loads at once

template <typename T, uint32_t kCount>
struct AvgForward {
  DeviceSlide slide;
  bool include_padding;
  const T* x;
  T* y;

  __device__ void operator()(uint64_t i) const {
    float sum[kCount] = {};
    AddPart(i, 0, 1, sum);
    StoreMean(i, sum);
  }
  // Adds elements part, part + num_parts, ... of the window of pack i to `sum`.
  __device__ void AddPart(uint64_t i, uint32_t part, uint32_t num_parts, float* sum) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.out);
    const PoolSpan rows = InputsOf(slide.window.rows, position.h, slide.in.h);
    const PoolSpan columns = InputsOf(slide.window.columns, position.w, slide.in.w);
    const uint32_t num_elements = rows.size() * columns.size();
    for (uint32_t e = part; e < num_elements; e += kElementsAtOnce * num_parts) {
      Raw<T, kCount> raw[kElementsAtOnce];
#pragma unroll
      for (uint32_t t = 0; t < kElementsAtOnce; ++t) {
        const uint32_t element = e + t * num_parts;
        if (element >= num_elements) continue;
        const uint32_t h = rows.begin + element / columns.size(),
                       w = columns.begin + element % columns.size();
        raw[t] = LoadRaw<kCount>(x + IndexOf({position.n, h, w, position.c}, slide.in));
      }
#pragma unroll
      for (uint32_t t = 0; t < kElementsAtOnce; ++t) {
        if (e + t * num_parts >= num_elements) continue;
        float value[kCount];
        AsFloats<T, kCount>(raw[t], value);
#pragma unroll
        for (uint32_t k = 0; k < kCount; ++k) sum[k] += value[k];
      }
    }
  }
  __device__ void StoreMean(uint64_t i, float* sum) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.out);
    const float divisor = DivisorOf(slide, include_padding, position.h, position.w);
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) sum[k] /= divisor;
    Store<kCount>(sum, y + i * kCount);
  }
};

// Averages windows of many elements: several threads add the elements of one window. The threads
// of a block are arranged in kWindowParts rows. A row adds every kWindowParts-th element of the
// windows of kWindowPacks neighbouring packs of the output.
constexpr uint32_t kWindowPacks = 32, kWindowParts = 8;
constexpr uint32_t kWindowThreads = kWindowPacks * kWindowParts;
constexpr uint32_t kLargeWindow = 16;  // the least number of elements of such a window

template <typename T, uint32_t kCount>
__global__ void __launch_bounds__(kWindowThreads)
    AvgForwardOfLargeWindows(uint64_t num_packs, AvgForward<T, kCount> work) {
  __shared__ float sums[kWindowParts][kCount][kWindowPacks];
  const uint32_t pack = threadIdx.x % kWindowPacks, part = threadIdx.x / kWindowPacks;
  const uint64_t i = uint64_t{blockIdx.x} * kWindowPacks + pack;
  float sum[kCount] = {};
  if (i < num_packs) work.AddPart(i, part, kWindowParts, sum);
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) sums[part][k][pack] = sum[k];
  __syncthreads();
  if (part > 0 || i >= num_packs) return;
  for (uint32_t p = 1; p < kWindowParts; ++p) {
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) sum[k] += sums[p][k][pack];
  }
  work.StoreMean(i, sum);
}

// Chooses between one and several threads per window.
template <typename T, uint32_t kCount>
int LaunchAvgForward(cudaStream_t stream, const AvgForward<T, kCount>& work) {
  const DeviceWindow& window = work.slide.window;
  const uint64_t num_packs = work.slide.out.size() / kCount;
  if (uint64_t{window.rows.kernel} * window.columns.kernel < kLargeWindow)
    return ForEach(stream, num_packs, work);
  const auto blocks = static_cast<uint32_t>((num_packs + kWindowPacks - 1) / kWindowPacks);
  return Launch(AvgForwardOfLargeWindows<T, kCount>, blocks, kWindowThreads, stream, num_packs,
                work);
}

template <typename T, uint32_t kCount>
struct AvgBackward {
  DeviceSlide slide;
  bool include_padding;
  const T* dy;
  T* dx;

  __device__ void operator()(uint64_t i) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.in);
    const PoolSpan rows = OutputsOf(slide.window.rows, position.h, slide.out.h);
    const PoolSpan columns = OutputsOf(slide.window.columns, position.w, slide.out.w);
    float sum[kCount] = {}, gradient[kCount];
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      for (uint32_t w = columns.begin; w < columns.end; ++w) {
        const float divisor = DivisorOf(slide, include_padding, h, w);
        Load<kCount>(dy + IndexOf({position.n, h, w, position.c}, slide.out), gradient);
        for (uint32_t k = 0; k < kCount; ++k) sum[k] += gradient[k] / divisor;
      }
    }
    Store<kCount>(sum, dx + i * kCount);
  }
};

}  // namespace

int MaxPoolForwardOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                           const void* x, void* y, uint16_t* winner) {
  return DispatchTypeAndPack(type, slide.in.c, [&]<typename T, uint32_t kCount>() {
    return ForEach(
        stream, slide.out.size() / kCount,
        MaxForward<T, kCount>{slide, static_cast<const T*>(x), static_cast<T*>(y), winner});
  });
}

int MaxPoolBackwardOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                            const void* dy, const uint16_t* winner, void* dx) {
  return DispatchTypeAndPack(type, slide.in.c, [&]<typename T, uint32_t kCount>() {
    DeviceImages threads = slide.in;
    threads.w = (threads.w + kBackwardColumns - 1) / kBackwardColumns;
    return ForEach(stream, threads.size() / kCount,
                   MaxBackward<T, kCount>{slide, threads, static_cast<const T*>(dy), winner,
                                          static_cast<T*>(dx)});
  });
}

int AvgPoolForwardOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                           bool include_padding, const void* x, void* y) {
  return DispatchTypeAndPack(type, slide.in.c, [&]<typename T, uint32_t kCount>() {
    return LaunchAvgForward(stream,
                            AvgForward<T, kCount>{slide, include_padding, static_cast<const T*>(x),
                                                  static_cast<T*>(y)});
  });
}

int AvgPoolBackwardOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                            bool include_padding, const void* dy, void* dx) {
  return DispatchTypeAndPack(type, slide.in.c, [&]<typename T, uint32_t kCount>() {
    return ForEach(stream, slide.in.size() / kCount,
                   AvgBackward<T, kCount>{slide, include_padding, static_cast<const T*>(dy),
                                          static_cast<T*>(dx)});
  });
}

}  // namespace tern::kernels
