// Loads and stores runs of eight neighbouring floats. A thread often processes eight elements at a
// time, because a byte of a plane (one bit per element) and a block of the random number generator
// (philox.h) belong to eight elements. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tern::kernels {

constexpr uint32_t kEight = 8;

// The length of the next run, at most eight, if `remaining` elements remain.
__device__ inline uint32_t AtMostEight(uint64_t remaining) {
  return remaining < kEight ? static_cast<uint32_t>(remaining) : kEight;
}

// The elements of a run.
struct Eight {
  float x[kEight];
};

// Whether a run of `count` elements has all eight, at an address where vector loads are possible.
__device__ inline bool CanLoadVector(const float* at, uint32_t count) {
  return count == kEight && reinterpret_cast<uintptr_t>(at) % sizeof(float4) == 0;
}

// Loads `count` elements from `at` on; the other elements of the result are zero.
__device__ inline Eight Load(const float* at, uint32_t count) {
  Eight e;
  if (CanLoadVector(at, count)) {
    const float4 a = *reinterpret_cast<const float4*>(at);
    const float4 b = *reinterpret_cast<const float4*>(at + 4);
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
#pragma unroll
  for (uint32_t k = 0; k < kEight; ++k) e.x[k] = k < count ? at[k] : 0;
  return e;
}

// Stores the first `count` elements from `at` on.
__device__ inline void Store(const Eight& e, float* at, uint32_t count) {
  if (CanLoadVector(at, count)) {
    *reinterpret_cast<float4*>(at) = {e.x[0], e.x[1], e.x[2], e.x[3]};
    *reinterpret_cast<float4*>(at + 4) = {e.x[4], e.x[5], e.x[6], e.x[7]};
    return;
  }
#pragma unroll
  for (uint32_t k = 0; k < kEight; ++k) {
    if (k < count) at[k] = e.x[k];
  }
}

}  // namespace tern::kernels
