// Element-wise layers, and changes of layout and type (elementwise.h).
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/codes/philox_math.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/elements.cuh"
#include "kernels/nn/elementwise.h"

namespace tern::kernels {
namespace {

struct Relu {
  float upper;
  __device__ float operator()(float x) const { return x <= 0 ? 0 : (x > upper ? upper : x); }
};

struct ReluBackward {
  float upper;
  __device__ float operator()(float y, float dy) const { return y > 0 && y < upper ? dy : 0; }
};

// P(X <= x) for a normal X.
__device__ float NormalBelow(float x) { return 0.5f * (1 + erff(x * 0.70710678f)); }

struct Gelu {
  __device__ float operator()(float x) const { return x * NormalBelow(x); }
};

struct GeluBackward {
  __device__ float operator()(float x, float dy) const {
    constexpr float kInverseSqrtOf2Pi = 0.39894228f;
    return dy * (NormalBelow(x) + x * kInverseSqrtOf2Pi * expf(-0.5f * x * x));
  }
};

struct Multiply {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};

struct SumWithOptionalRelu {
  bool relu;
  __device__ float operator()(float a, float b) const { return relu && a + b <= 0 ? 0 : a + b; }
};

// The index in [n, c, h, w] of channel c of a pixel of [n, h, w].
__device__ uint64_t ChannelsFirstIndex(uint64_t pixel, uint64_t c, const DeviceImages& images) {
  const uint64_t image_pixels = uint64_t{images.h} * images.w, n = pixel / image_pixels;
  // (n * images.c + c) * image_pixels, and the pixel's place in its image: pixel - n * image_pixels
  return (n * (images.c - 1) + c) * image_pixels + pixel;
}
// The index in [n, c, h, w] of element i of [n, h, w, c].
__device__ uint64_t ChannelsFirstIndex(uint64_t i, const DeviceImages& images) {
  return ChannelsFirstIndex(i / images.c, i % images.c, images);
}

template <typename T>
struct DropoutElement {
  const T* x;
  DeviceImages images;
  NoiseKey key;
  const DeviceStep* step;
  uint32_t threshold;  // a 16-bit random number below this drops the element
  float scale;         // the factor of the other elements
  T* y;
  __device__ void operator()(uint64_t i) const {
    NoiseKey step_key = key;
    step_key.round = step->step;
    const bool is_dropped = NoiseDraw(step_key, ChannelsFirstIndex(i, images), 0) < threshold;
    y[i] = FromFloat<T>(is_dropped ? 0 : AsFloat(x[i]) * scale);
  }
};

template <typename From, typename To>
struct ToChannelsLast {
  const From* x;
  DeviceImages images;
  uint32_t y_channels;
  To* y;
  __device__ void operator()(uint64_t i) const {
    const uint64_t pixel = i / y_channels, c = i - pixel * y_channels;
    const uint64_t from = ChannelsFirstIndex(pixel, c, images);
    y[i] = FromFloat<To>(c < images.c ? AsFloat(x[from]) : 0);
  }
};

template <typename T>
struct ToChannelsFirst {
  const T* x;
  DeviceImages images;
  T* y;
  __device__ void operator()(uint64_t i) const { y[ChannelsFirstIndex(i, images)] = x[i]; }
};

// Copies kCount neighbouring channels.
template <typename T, uint32_t kCount>
struct CopyChannels {
  const T* x;
  DeviceChannels from, to;
  uint32_t packs_per_pixel;  // runs of kCount channels to copy per pixel
  T* y;
  __device__ void operator()(uint64_t i) const {
    const uint64_t pixel = i / packs_per_pixel, c = i % packs_per_pixel * kCount;
    float v[kCount];
    Load<kCount>(x + pixel * from.per_pixel + from.first + c, v);
    Store<kCount>(v, y + pixel * to.per_pixel + to.first + c);
  }
};

template <typename From, typename To>
struct Convert {
  const From* x;
  To* y;
  __device__ void operator()(uint64_t i) const { y[i] = FromFloat<To>(AsFloat(x[i])); }
};

struct FindNotFinite {
  const float* x;
  uint32_t* found;
  __device__ void operator()(uint64_t i) const {
    if (!(fabsf(x[i]) < INFINITY)) atomicOr(found, 1u);
  }
};

}  // namespace

int ReluForwardOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t n,
                        float upper, void* y) {
  return DispatchType(type, [&]<typename T>() {
    return LaunchMap<T>(stream, n, Relu{upper}, static_cast<T*>(y), static_cast<const T*>(x));
  });
}

int ReluBackwardOnDevice(DeviceStream stream, DeviceType type, const void* y, const void* dy,
                         uint64_t n, float upper, void* dx) {
  return DispatchType(type, [&]<typename T>() {
    return LaunchMap<T>(stream, n, ReluBackward{upper}, static_cast<T*>(dx),
                        static_cast<const T*>(y), static_cast<const T*>(dy));
  });
}

int GeluForwardOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t n, void* y) {
  return DispatchType(type, [&]<typename T>() {
    return LaunchMap(stream, n, Gelu(), static_cast<T*>(y), static_cast<const T*>(x));
  });
}

int GeluBackwardOnDevice(DeviceStream stream, DeviceType type, const void* x, const void* dy,
                         uint64_t n, void* dx) {
  return DispatchType(type, [&]<typename T>() {
    return LaunchMap(stream, n, GeluBackward(), static_cast<T*>(dx), static_cast<const T*>(x),
                     static_cast<const T*>(dy));
  });
}

int ScaleOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t n, float factor,
                  void* y) {
  return DispatchType(type, [&]<typename T>() {
    return LaunchMap(stream, n, Multiply{factor}, static_cast<T*>(y), static_cast<const T*>(x));
  });
}

int AddOnDevice(DeviceStream stream, DeviceType type, const void* a, const void* b, uint64_t n,
                bool relu, void* y) {
  return DispatchType(type, [&]<typename T>() {
    return LaunchMap<T>(stream, n, SumWithOptionalRelu{relu}, static_cast<T*>(y),
                        static_cast<const T*>(a), static_cast<const T*>(b));
  });
}

int DropoutOnDevice(DeviceStream stream, DeviceType type, const void* x, const DeviceImages& images,
                    const NoiseKey& key, const DeviceStep* step, float rate, void* y) {
  const auto threshold = static_cast<uint32_t>(std::lround(rate * 65536.0));
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, images.size(),
                   DropoutElement<T>{static_cast<const T*>(x), images, key, step, threshold,
                                     1 / (1 - rate), static_cast<T*>(y)});
  });
}

int ToChannelsLastOnDevice(DeviceStream stream, DeviceType from, const void* x,
                           const DeviceImages& images, uint32_t y_channels, DeviceType to,
                           void* y) {
  return DispatchType(from, [&]<typename From>() {
    return DispatchType(to, [&]<typename To>() {
      return ForEach(stream, images.pixels() * y_channels,
                     ToChannelsLast<From, To>{static_cast<const From*>(x), images, y_channels,
                                              static_cast<To*>(y)});
    });
  });
}

int ToChannelsFirstOnDevice(DeviceStream stream, DeviceType type, const void* x,
                            const DeviceImages& images, void* y) {
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, images.size(),
                   ToChannelsFirst<T>{static_cast<const T*>(x), images, static_cast<T*>(y)});
  });
}

int CopyChannelsOnDevice(DeviceStream stream, DeviceType type, const void* x,
                         const DeviceChannels& from, uint64_t pixels, uint32_t count,
                         const DeviceChannels& to, void* y) {
  // The bitwise or of these numbers is divisible by a power of 2 only if all of them are. So a
  // thread copies whole packs (elements.cuh) only if all packs are aligned.
  const uint32_t common_divisor_bits =
      from.first | from.per_pixel | to.first | to.per_pixel | count;
  return DispatchTypeAndPack(type, common_divisor_bits, [&]<typename T, uint32_t kCount>() {
    return ForEach(stream, pixels * (count / kCount),
                   CopyChannels<T, kCount>{static_cast<const T*>(x), from, to, count / kCount,
                                           static_cast<T*>(y)});
  });
}

int FromFloatsOnDevice(DeviceStream stream, const float* x, uint64_t n, DeviceType type, void* y) {
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, n, Convert<float, T>{x, static_cast<T*>(y)});
  });
}

int ToFloatsOnDevice(DeviceStream stream, DeviceType type, const void* x, uint64_t n, float* y) {
  return DispatchType(type, [&]<typename T>() {
    return ForEach(stream, n, Convert<T, float>{static_cast<const T*>(x), y});
  });
}

int FindNotFiniteOnDevice(DeviceStream stream, const float* x, uint64_t n, uint32_t* found) {
  return ForEach(stream, n, FindNotFinite{x, found});
}

}  // namespace tern::kernels
