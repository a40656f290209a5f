// Local response normalization (lrn.h) on a GPU, with one thread per element.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/elements.cuh"
#include "kernels/nn/lrn.h"

namespace tern::kernels {
namespace {

// Sets [begin, end) to the window of `size` channels around channel c, cut off at the first and the
// last channel.
__device__ void WindowOf(uint32_t c, uint32_t channels, uint32_t size, uint32_t* begin,
                         uint32_t* end) {
  const uint32_t half_window = size / 2;
  *begin = c > half_window ? c - half_window : 0;
  *end = c + half_window + 1 < channels ? c + half_window + 1 : channels;
}

// Returns s_c (lrn.h) of channel c of a pixel.
template <typename T>
__device__ float ScaleOf(const T* pixel, uint32_t c, uint32_t channels, const DeviceLrn& rule) {
  uint32_t begin, end;
  WindowOf(c, channels, rule.size, &begin, &end);
  float sum_squares = 0;
  for (uint32_t j = begin; j < end; ++j) sum_squares += AsFloat(pixel[j]) * AsFloat(pixel[j]);
  return rule.k + rule.alpha / static_cast<float>(rule.size) * sum_squares;
}

template <typename T>
struct ForwardElement {
  const T* x;
  uint32_t channels;
  DeviceLrn rule;
  T* y;
  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % channels);
    y[i] = FromFloat<T>(AsFloat(x[i]) * powf(ScaleOf(x + (i - c), c, channels, rule), -rule.beta));
  }
};

template <typename T>
struct BackwardElement {
  const T *x, *dy;
  uint32_t channels;
  DeviceLrn rule;
  T* dx;
  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % channels);
    const T *pixel = x + (i - c), *gradient = dy + (i - c);
    uint32_t begin, end;
    WindowOf(c, channels, rule.size, &begin, &end);
    float window_sum = 0;
    for (uint32_t j = begin; j < end; ++j) {
      window_sum += AsFloat(gradient[j]) * AsFloat(pixel[j]) *
                    powf(ScaleOf(pixel, j, channels, rule), -rule.beta - 1);
    }
    const float factor = 2 * rule.alpha * rule.beta / static_cast<float>(rule.size);
    const float direct_term = AsFloat(dy[i]) * powf(ScaleOf(pixel, c, channels, rule), -rule.beta);
    dx[i] = FromFloat<T>(direct_term - factor * AsFloat(x[i]) * window_sum);
  }
};

}  // namespace

int LrnForwardOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t pixels,
                       uint32_t channels, const DeviceLrn& rule, void* y) {
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, pixels * channels,
                   ForwardElement<T>{static_cast<const T*>(x), channels, rule, static_cast<T*>(y)});
  });
}

int LrnBackwardOnDevice(DeviceStream stream, DeviceType type, const void* x, const void* dy,
                        uint64_t pixels, uint32_t channels, const DeviceLrn& rule, void* dx) {
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, pixels * channels,
                   BackwardElement<T>{static_cast<const T*>(x), static_cast<const T*>(dy), channels,
                                      rule, static_cast<T*>(dx)});
  });
}

}  // namespace tern::kernels
