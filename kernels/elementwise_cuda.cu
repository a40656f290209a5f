// What happens to each element by itself, and where it goes.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device_layers.h"
#include "kernels/launch_inl.h"
#include "kernels/philox_inl.h"

namespace tern::kernels {
namespace {

struct Relu {
  const float* x;
  float upper;
  float* y;
  __device__ void operator()(uint64_t i) const { y[i] = fminf(fmaxf(x[i], 0), upper); }
};

struct ReluBack {
  const float *y, *dy;
  float upper;
  float* dx;
  __device__ void operator()(uint64_t i) const { dx[i] = y[i] > 0 && y[i] < upper ? dy[i] : 0; }
};

struct Sum {
  const float *a, *b;
  bool relu;
  float* y;
  __device__ void operator()(uint64_t i) const {
    const float sum = a[i] + b[i];
    y[i] = relu ? fmaxf(sum, 0) : sum;
  }
};

struct Product {
  const float *a, *b;
  float* y;
  __device__ void operator()(uint64_t i) const { y[i] = a[i] * b[i]; }
};

// Of element i of [n, h, w, c], its place in [n, c, h, w].
__device__ uint64_t ChannelsFirst(uint64_t i, const DeviceImages& images) {
  const uint64_t pixels = uint64_t{images.h} * images.w;
  const uint64_t c = i % images.c, pixel = i / images.c;
  return (pixel / pixels * images.c + c) * pixels + pixel % pixels;
}

struct Drop {
  const float* x;
  DeviceImages images;
  NoiseKey key;
  uint32_t below;
  float kept;
  float *factors, *y;
  __device__ void operator()(uint64_t i) const {
    const float factor = NoiseDraw(key, ChannelsFirst(i, images), 0) < below ? 0 : kept;
    factors[i] = factor;
    y[i] = x[i] * factor;
  }
};

struct ToLast {
  const float* x;
  DeviceImages images;
  float* y;
  __device__ void operator()(uint64_t i) const { y[i] = x[ChannelsFirst(i, images)]; }
};

struct ToFirst {
  const float* x;
  DeviceImages images;
  float* y;
  __device__ void operator()(uint64_t i) const { y[ChannelsFirst(i, images)] = x[i]; }
};

struct CopyChannels {
  const float* x;
  DeviceChannels from, to;
  uint32_t count;
  float* y;
  __device__ void operator()(uint64_t i) const {
    const uint64_t pixel = i / count, c = i % count;
    y[pixel * to.of + to.first + c] = x[pixel * from.of + from.first + c];
  }
};

}  // namespace

int ReluForwardOnDevice(DeviceStream stream, const float* x, uint64_t n, float upper, float* y) {
  return ForEach(stream, n, Relu{x, upper, y});
}

int ReluBackwardOnDevice(DeviceStream stream, const float* y, const float* dy, uint64_t n,
                         float upper, float* dx) {
  return ForEach(stream, n, ReluBack{y, dy, upper, dx});
}

int AddOnDevice(DeviceStream stream, const float* a, const float* b, uint64_t n, bool relu,
                float* y) {
  return ForEach(stream, n, Sum{a, b, relu, y});
}

int MultiplyOnDevice(DeviceStream stream, const float* a, const float* b, uint64_t n, float* y) {
  return ForEach(stream, n, Product{a, b, y});
}

int DropoutOnDevice(DeviceStream stream, const float* x, const DeviceImages& images,
                    const NoiseKey& key, float rate, float* factors, float* y) {
  const auto below = static_cast<uint32_t>(std::lround(rate * 65536.0));
  return ForEach(stream, images.size(), Drop{x, images, key, below, 1 / (1 - rate), factors, y});
}

int ToChannelsLastOnDevice(DeviceStream stream, const float* x, const DeviceImages& images,
                           float* y) {
  return ForEach(stream, images.size(), ToLast{x, images, y});
}

int ToChannelsFirstOnDevice(DeviceStream stream, const float* x, const DeviceImages& images,
                            float* y) {
  return ForEach(stream, images.size(), ToFirst{x, images, y});
}

int CopyChannelsOnDevice(DeviceStream stream, const float* x, const DeviceChannels& from,
                         uint64_t pixels, uint32_t count, const DeviceChannels& to, float* y) {
  return ForEach(stream, pixels * count, CopyChannels{x, from, to, count, y});
}

}  // namespace tern::kernels
