// Runs of eight neighbours of an arena, the unit of work of a thread: a byte of a plane of bits,
// and a block of Philox's draws, cover eight elements. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tern::kernels {

constexpr uint32_t kEight = 8;

// The length of a run when `left` elements are left.
__device__ inline uint32_t EightOf(uint64_t left) {
  return left < kEight ? static_cast<uint32_t>(left) : kEight;
}

struct Eight {
  float x[kEight];
};

__device__ inline bool IsWhole(const float* at, uint32_t count) {
  return count == kEight && reinterpret_cast<uintptr_t>(at) % sizeof(float4) == 0;
}

// Loads the first `count` elements; the others become zero.
__device__ inline Eight Load(const float* at, uint32_t count) {
  Eight e;
  if (IsWhole(at, count)) {
    const float4 a = *reinterpret_cast<const float4*>(at);
    const float4 b = *reinterpret_cast<const float4*>(at + 4);
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
#pragma unroll
  for (uint32_t k = 0; k < kEight; ++k) e.x[k] = k < count ? at[k] : 0;
  return e;
}

__device__ inline void Store(const Eight& e, float* at, uint32_t count) {
  if (IsWhole(at, count)) {
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
