// Local response normalization (lrn.h) on a GPU. The forward pass has one thread per element. In
// the backward pass an element needs s^(-beta - 1) of its whole window, so that the threads of a
// block share these powers, unless the window is large.
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

// Of a block of the backward pass. The block computes the elements of the slots in the middle;
// their windows reach into `half` slots at either side, and the windows of these into as many
// again.
constexpr uint32_t kSharedThreads = 256, kSlots = 1024;
constexpr uint32_t kSlotsOfThread = kSlots / kSharedThreads;
constexpr uint32_t kMaxSharedHalf = kSlots / 8;

template <typename T>
__global__ void __launch_bounds__(kSharedThreads)
    BackwardOfSlots(const T* x, const T* dy, uint64_t size, uint32_t channels, DeviceLrn rule,
                    T* dx) {
  __shared__ float squares[kSlots], terms[kSlots];
  const uint32_t half = rule.size / 2, num_elements = kSlots - 4 * half;
  const uint64_t begin = uint64_t{blockIdx.x} * num_elements;
  // The channel of slot 0, whose element may be before the first.
  const uint32_t first_channel =
      (static_cast<uint32_t>(begin % channels) + channels - 2 * half % channels) % channels;
  // Of this thread's slots: values, gradients, and s^-beta.
  float values[kSlotsOfThread], gradients[kSlotsOfThread], powers[kSlotsOfThread];
#pragma unroll
  for (uint32_t k = 0; k < kSlotsOfThread; ++k) {
    const uint32_t slot = k * kSharedThreads + threadIdx.x;
    const uint64_t i = begin + slot - 2 * half;
    const bool exists = begin + slot >= 2 * half && i < size;
    values[k] = exists ? AsFloat(x[i]) : 0;
    gradients[k] = exists ? AsFloat(dy[i]) : 0;
    squares[slot] = values[k] * values[k];
  }
  __syncthreads();
  // The sum over the window of a slot, cut off at the first and the last channel.
  const auto sum_in_window = [&](const float* row, uint32_t slot) {
    uint32_t window_begin, window_end;
    const uint32_t c = (first_channel + slot) % channels;
    WindowOf(c, channels, rule.size, &window_begin, &window_end);
    float sum = 0;
    for (uint32_t j = slot - (c - window_begin); j < slot + (window_end - c); ++j) sum += row[j];
    return sum;
  };
#pragma unroll
  for (uint32_t k = 0; k < kSlotsOfThread; ++k) {
    const uint32_t slot = k * kSharedThreads + threadIdx.x;
    if (slot < half || slot >= kSlots - half) continue;
    const float scale =
        rule.k + rule.alpha / static_cast<float>(rule.size) * sum_in_window(squares, slot);
    powers[k] = powf(scale, -rule.beta);
    terms[slot] = gradients[k] * values[k] * powers[k] / scale;
  }
  __syncthreads();
  const float factor = 2 * rule.alpha * rule.beta / static_cast<float>(rule.size);
#pragma unroll
  for (uint32_t k = 0; k < kSlotsOfThread; ++k) {
    const uint32_t slot = k * kSharedThreads + threadIdx.x;
    const uint64_t i = begin + slot - 2 * half;
    if (slot < 2 * half || slot >= kSlots - 2 * half || i >= size) continue;
    dx[i] =
        FromFloat<T>(gradients[k] * powers[k] - factor * values[k] * sum_in_window(terms, slot));
  }
}

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
    if (rule.size / 2 <= kMaxSharedHalf) {
      const uint32_t num_elements = kSlots - 4 * (rule.size / 2);
      const auto blocks =
          static_cast<uint32_t>((pixels * channels + num_elements - 1) / num_elements);
      return Launch(BackwardOfSlots<T>, blocks, kSharedThreads, stream, static_cast<const T*>(x),
                    static_cast<const T*>(dy), pixels * channels, channels, rule,
                    static_cast<T*>(dx));
    }
    return ForEach(stream, pixels * channels,
                   BackwardElement<T>{static_cast<const T*>(x), static_cast<const T*>(dy), channels,
                                      rule, static_cast<T*>(dx)});
  });
}

}  // namespace tern::kernels
