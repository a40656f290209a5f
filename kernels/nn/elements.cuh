// Loads, stores and conversions of the elements of images on a GPU. Elements are float, bfloat16 or
// half precision in memory and float in arithmetic. A "pack" is 16 bytes of elements, which a
// thread loads or stores at once. For .cu files only.
#pragma once

#include <cuda_runtime.h>
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/codes/half_math.h"
#include "kernels/device/launch.cuh"
#include "kernels/nn/device_images.h"

namespace tern::kernels {

struct Bfloat {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

// Rounds to the type T. Values beyond the range of T become infinite. (The conversions of half.h,
// for values that are sent, return the largest finite value instead.)
template <typename T>
__device__ T FromFloat(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, Half>) return {__half_as_ushort(__float2half_rn(x))};
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    const uint32_t infinity = std::is_same_v<T, Half> ? 0x7C00 : 0x7F80;
    const float overflow_threshold = std::is_same_v<T, Half> ? 65520.0f : 0x1.FFp+127f;
    if (fabsf(x) >= overflow_threshold)
      return {static_cast<uint16_t>((BitsOf(x) >> 16 & 0x8000) | infinity)};
    return {std::is_same_v<T, Half> ? ToHalf(x) : ToBfloat(x)};
#endif
  }
}

__device__ inline float AsFloat(float x) { return x; }
__device__ inline float AsFloat(Bfloat x) { return FromBfloat(x.bits); }
__device__ inline float AsFloat(Half x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  return FromHalf(x.bits);
#endif
}

// Number of elements of a pack.
template <typename T>
inline constexpr uint32_t kPackElements = 16 / sizeof(T);

// Raw<T, kCount> holds kCount elements as they are in memory: one, or a pack. LoadRaw loads them,
// and AsFloats converts them. A thread can load several before it converts the first, so that the
// latencies of the loads overlap.
template <typename T, uint32_t kCount>
using Raw = std::conditional_t<kCount == 1, T, float4>;
template <uint32_t kCount, typename T>
__device__ Raw<T, kCount> LoadRaw(const T* x) {
  static_assert(kCount == 1 || kCount == kPackElements<T>);
  return *reinterpret_cast<const Raw<T, kCount>*>(x);
}
template <typename T, uint32_t kCount>
__device__ void AsFloats(const Raw<T, kCount>& raw, float* v) {
  T e[kCount];
  memcpy(e, &raw, sizeof raw);
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) v[k] = AsFloat(e[k]);
}

// Load converts kCount elements at x to floats v; Store converts floats v to kCount elements at y.
// kCount is 1 or kPackElements<T>. A pack must be aligned to 16 bytes.
template <uint32_t kCount, typename T>
__device__ void Load(const T* x, float* v) {
  AsFloats<T, kCount>(LoadRaw<kCount>(x), v);
}
template <uint32_t kCount, typename T>
__device__ void Store(const float* v, T* y) {
  if constexpr (kCount == kPackElements<T>) {
    T e[kCount];
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) e[k] = FromFloat<T>(v[k]);
    float4 raw;
    memcpy(&raw, e, sizeof raw);
    *reinterpret_cast<float4*>(y) = raw;
  } else {
    static_assert(kCount == 1);
    y[0] = FromFloat<T>(v[0]);
  }
}

// Returns work.operator()<T>() for the type T of elements that `type` stands for.
template <typename Work>
int DispatchType(DeviceType type, const Work& work) {
  switch (type) {
    case DeviceType::kBfloat:
      return work.template operator()<Bfloat>();
    case DeviceType::kHalf:
      return work.template operator()<Half>();
    case DeviceType::kFloat:
      break;
  }
  return work.template operator()<float>();
}
// Returns work.operator()<T, kCount>(), where kCount is the number of neighbouring channels that a
// thread processes: kPackElements<T> if that divides `channels`, else 1.
template <typename Work>
int DispatchTypeAndPack(DeviceType type, uint32_t channels, const Work& work) {
  return DispatchType(type, [&]<typename T>() {
    return channels % kPackElements<T> == 0 ? work.template operator()<T, kPackElements<T>>()
                                            : work.template operator()<T, 1>();
  });
}

// Sets y[i + k] to f(x[i + k]...) for k < kCount. There are one or two arrays x.
template <uint32_t kCount, typename T, typename F, typename... X>
__device__ void MapAt(uint64_t i, const F& f, T* y, const X*... x) {
  float out[kCount], in[sizeof...(X)][kCount];
  uint32_t next_input = 0;
  (Load<kCount>(x + i, in[next_input++]), ...);
#pragma unroll
  for (uint32_t k = 0; k < kCount; ++k) {
    if constexpr (sizeof...(X) == 1) out[k] = f(in[0][k]);
    if constexpr (sizeof...(X) == 2) out[k] = f(in[0][k], in[1][k]);
  }
  Store<kCount>(out, y + i);
}

template <uint32_t kCount, typename T, typename F, typename... X>
__global__ void MapElements(uint64_t n, F f, T* y, const X*... x) {
  const uint64_t i = (uint64_t{blockIdx.x} * kElementThreads + threadIdx.x) * kCount;
  if (i >= n) return;
  if (i + kCount <= n) return MapAt<kCount>(i, f, y, x...);
  for (uint64_t rest = i; rest < n; ++rest) MapAt<1>(rest, f, y, x...);
}

// Launches a kernel that sets y[i] to f(x[i]...) for n elements. There are one or two arrays x.
template <typename T, typename F, typename... X>
int LaunchMap(cudaStream_t stream, uint64_t n, const F& f, T* y, const X*... x) {
  constexpr uint32_t kCount = kPackElements<T>;
  const uint64_t num_packs = (n + kCount - 1) / kCount;
  const auto num_blocks =
      static_cast<uint32_t>((num_packs + kElementThreads - 1) / kElementThreads);
  return Launch(MapElements<kCount, T, F, X...>, num_blocks, kElementThreads, stream, n, f, y,
                x...);
}

}  // namespace tern::kernels
