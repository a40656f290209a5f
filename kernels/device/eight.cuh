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

// Up to eight neighbouring floats: the elements of a run.
struct EightFloats {
  float x[kEight];
};

// Whether a run of `count` elements has all eight, at an address where vector loads are possible.
__device__ inline bool CanLoadVector(const float* address, uint32_t count) {
  return count == kEight && reinterpret_cast<uintptr_t>(address) % sizeof(float4) == 0;
}

// Loads `count` elements from `address` on; the other elements of the result are zero.
__device__ inline EightFloats Load(const float* address, uint32_t count) {
  EightFloats e;
  if (CanLoadVector(address, count)) {
    const float4 a = *reinterpret_cast<const float4*>(address);
    const float4 b = *reinterpret_cast<const float4*>(address + 4);
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
#pragma unroll
  for (uint32_t k = 0; k < kEight; ++k) e.x[k] = k < count ? address[k] : 0;
  return e;
}

// Stores the first `count` elements from `address` on.
__device__ inline void Store(const EightFloats& e, float* address, uint32_t count) {
  if (CanLoadVector(address, count)) {
    *reinterpret_cast<float4*>(address) = {e.x[0], e.x[1], e.x[2], e.x[3]};
    *reinterpret_cast<float4*>(address + 4) = {e.x[4], e.x[5], e.x[6], e.x[7]};
    return;
  }
#pragma unroll
  for (uint32_t k = 0; k < kEight; ++k) {
    if (k < count) address[k] = e.x[k];
  }
}

}  // namespace tern::kernels
