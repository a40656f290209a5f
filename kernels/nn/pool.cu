// Max and average pooling on a GPU (pool.h). A thread computes kCount neighbouring channels of one
// pixel: one channel, or as many as fit in 16 bytes. The pixel is one of the output in the forward
// pass, and one of the input's gradient in the backward pass. A "tap" is the index of an element in
// a window.
#include <cuda_runtime.h>

#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/elements.cuh"
#include "kernels/nn/pool.h"

namespace tern::kernels {
namespace {

// Channel c of the pixel in row h and column w of image n.
struct ChannelPosition {
  uint32_t n, h, w, c;
};

// The position of the first channel of the i-th run of kCount channels.
template <uint32_t kCount>
__device__ ChannelPosition PositionOf(uint64_t i, const DeviceImages& images) {
  const uint32_t packs_per_pixel = images.c / kCount;
  const auto c = static_cast<uint32_t>(i % packs_per_pixel) * kCount;
  i /= packs_per_pixel;
  const auto w = static_cast<uint32_t>(i % images.w);
  i /= images.w;
  return {static_cast<uint32_t>(i / images.h), static_cast<uint32_t>(i % images.h), w, c};
}

// The index of the element at position p in the array of images.
__device__ uint64_t IndexOf(const ChannelPosition& p, const DeviceImages& images) {
  return ((uint64_t{p.n} * images.h + p.h) * images.w + p.w) * images.c + p.c;
}

// A range [begin, end) of an axis.
struct Span {
  uint32_t begin, end;
  __device__ uint32_t size() const { return end - begin; }
};

// The inputs that output `out` reads along an axis of `size` inputs.
__device__ Span InputsOf(const DeviceAxis& axis, uint32_t out, uint32_t size) {
  const uint32_t begin = out * axis.stride, end = begin + axis.kernel;
  const uint32_t input_end = end > axis.pad ? end - axis.pad : 0;
  return {begin > axis.pad ? begin - axis.pad : 0, input_end < size ? input_end : size};
}

// The outputs that read input `in` along an axis of `size` outputs.
__device__ Span OutputsOf(const DeviceAxis& axis, uint32_t in, uint32_t size) {
  const uint32_t padded_in = in + axis.pad, output_end = padded_in / axis.stride + 1;
  const uint32_t begin = padded_in < axis.kernel ? 0 : (padded_in - axis.kernel) / axis.stride + 1;
  return {begin, output_end < size ? output_end : size};
}

// The index of input `in` in the window of output `out`, along one axis.
__device__ uint32_t TapOf(const DeviceAxis& axis, uint32_t out, uint32_t in) {
  return in + axis.pad - out * axis.stride;
}

template <typename T, uint32_t kCount>
struct MaxForward {
  DeviceSlide slide;
  const T* x;
  T* y;
  uint16_t* winner;

  __device__ void operator()(uint64_t i) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.out);
    const DeviceAxis &h_axis = slide.window.rows, &w_axis = slide.window.columns;
    const Span rows = InputsOf(h_axis, position.h, slide.in.h),
               columns = InputsOf(w_axis, position.w, slide.in.w);
    float largest[kCount], value[kCount];
    uint16_t winner_taps[kCount];
    for (uint32_t k = 0; k < kCount; ++k) {
      largest[k] = -INFINITY;
      winner_taps[k] = static_cast<uint16_t>(TapOf(h_axis, position.h, rows.begin) * w_axis.kernel +
                                             TapOf(w_axis, position.w, columns.begin));
    }
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      for (uint32_t w = columns.begin; w < columns.end; ++w) {
        const uint32_t tap =
            TapOf(h_axis, position.h, h) * w_axis.kernel + TapOf(w_axis, position.w, w);
        Load<kCount>(x + IndexOf({position.n, h, w, position.c}, slide.in), value);
#pragma unroll
        for (uint32_t k = 0; k < kCount; ++k) {
          if (!(value[k] > largest[k])) continue;
          largest[k] = value[k];
          winner_taps[k] = static_cast<uint16_t>(tap);
        }
      }
    }
    Store<kCount>(largest, y + i * kCount);
    for (uint32_t k = 0; k < kCount; ++k) winner[i * kCount + k] = winner_taps[k];
  }
};

template <typename T, uint32_t kCount>
struct MaxBackward {
  DeviceSlide slide;
  const T* dy;
  const uint16_t* winner;
  T* dx;

  __device__ void operator()(uint64_t i) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.in);
    const DeviceAxis &h_axis = slide.window.rows, &w_axis = slide.window.columns;
    const Span rows = OutputsOf(h_axis, position.h, slide.out.h);
    const Span columns = OutputsOf(w_axis, position.w, slide.out.w);
    float sum[kCount] = {}, gradient[kCount];
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      for (uint32_t w = columns.begin; w < columns.end; ++w) {
        const uint64_t out = IndexOf({position.n, h, w, position.c}, slide.out);
        const uint32_t tap =
            TapOf(h_axis, h, position.h) * w_axis.kernel + TapOf(w_axis, w, position.w);
        Load<kCount>(dy + out, gradient);
#pragma unroll
        for (uint32_t k = 0; k < kCount; ++k) sum[k] += winner[out + k] == tap ? gradient[k] : 0;
      }
    }
    Store<kCount>(sum, dx + i * kCount);
  }
};

// The divisor of the mean of output (h, w): the number of elements in its window. Elements of the
// padding count only if `include_padding`.
__device__ float DivisorOf(const DeviceSlide& slide, bool include_padding, uint32_t h, uint32_t w) {
  const DeviceAxis &rows = slide.window.rows, &columns = slide.window.columns;
  if (include_padding) return static_cast<float>(rows.kernel * columns.kernel);
  return static_cast<float>(InputsOf(rows, h, slide.in.h).size() *
                            InputsOf(columns, w, slide.in.w).size());
}

template <typename T, uint32_t kCount>
struct AvgForward {
  DeviceSlide slide;
  bool include_padding;
  const T* x;
  T* y;

  __device__ void operator()(uint64_t i) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.out);
    const Span rows = InputsOf(slide.window.rows, position.h, slide.in.h);
    const Span columns = InputsOf(slide.window.columns, position.w, slide.in.w);
    float sum[kCount] = {}, value[kCount];
    for (uint32_t h = rows.begin; h < rows.end; ++h) {
      for (uint32_t w = columns.begin; w < columns.end; ++w) {
        Load<kCount>(x + IndexOf({position.n, h, w, position.c}, slide.in), value);
        for (uint32_t k = 0; k < kCount; ++k) sum[k] += value[k];
      }
    }
    for (uint32_t k = 0; k < kCount; ++k)
      sum[k] /= DivisorOf(slide, include_padding, position.h, position.w);
    Store<kCount>(sum, y + i * kCount);
  }
};

template <typename T, uint32_t kCount>
struct AvgBackward {
  DeviceSlide slide;
  bool include_padding;
  const T* dy;
  T* dx;

  __device__ void operator()(uint64_t i) const {
    const ChannelPosition position = PositionOf<kCount>(i, slide.in);
    const Span rows = OutputsOf(slide.window.rows, position.h, slide.out.h);
    const Span columns = OutputsOf(slide.window.columns, position.w, slide.out.w);
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
    return ForEach(
        stream, slide.in.size() / kCount,
        MaxBackward<T, kCount>{slide, static_cast<const T*>(dy), winner, static_cast<T*>(dx)});
  });
}

int AvgPoolForwardOnDevice(DeviceStream stream, DeviceType type, const DeviceSlide& slide,
                           bool include_padding, const void* x, void* y) {
  return DispatchTypeAndPack(type, slide.in.c, [&]<typename T, uint32_t kCount>() {
    return ForEach(stream, slide.out.size() / kCount,
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
