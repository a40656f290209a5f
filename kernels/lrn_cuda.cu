// lrn.h on a GPU: a thread an element.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device_layers.h"
#include "kernels/launch_inl.h"

namespace tern::kernels {
namespace {

// The channels around c.
__device__ void Around(uint32_t c, uint32_t channels, uint32_t size, uint32_t* begin,
                       uint32_t* end) {
  const uint32_t half = size / 2;
  *begin = c > half ? c - half : 0;
  *end = c + half + 1 < channels ? c + half + 1 : channels;
}

// s_c of a pixel.
__device__ float SumAround(const float* pixel, uint32_t c, uint32_t channels,
                           const DeviceLrn& rule) {
  uint32_t begin, end;
  Around(c, channels, rule.size, &begin, &end);
  float squares = 0;
  for (uint32_t j = begin; j < end; ++j) squares += pixel[j] * pixel[j];
  return rule.k + rule.alpha / static_cast<float>(rule.size) * squares;
}

struct Forward {
  const float* x;
  uint32_t channels;
  DeviceLrn rule;
  float* y;
  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % channels);
    y[i] = x[i] * powf(SumAround(x + (i - c), c, channels, rule), -rule.beta);
  }
};

struct Backward {
  const float *x, *dy;
  uint32_t channels;
  DeviceLrn rule;
  float* dx;
  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % channels);
    const float *pixel = x + (i - c), *gradient = dy + (i - c);
    uint32_t begin, end;
    Around(c, channels, rule.size, &begin, &end);
    float sum = 0;
    for (uint32_t j = begin; j < end; ++j) {
      sum += gradient[j] * pixel[j] * powf(SumAround(pixel, j, channels, rule), -rule.beta - 1);
    }
    const float along = 2 * rule.alpha * rule.beta / static_cast<float>(rule.size);
    dx[i] = dy[i] * powf(SumAround(pixel, c, channels, rule), -rule.beta) - along * x[i] * sum;
  }
};

}  // namespace

int LrnForwardOnDevice(DeviceStream stream, const float* x, uint64_t pixels, uint32_t channels,
                       const DeviceLrn& rule, float* y) {
  return ForEach(stream, pixels * channels, Forward{x, channels, rule, y});
}

int LrnBackwardOnDevice(DeviceStream stream, const float* x, const float* dy, uint64_t pixels,
                        uint32_t channels, const DeviceLrn& rule, float* dx) {
  return ForEach(stream, pixels * channels, Backward{x, dy, channels, rule, dx});
}

}  // namespace tern::kernels
