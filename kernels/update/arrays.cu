// Element-wise operations on arrays (arrays.h).
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/codes/half_math.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/update/arrays.h"

namespace tern::kernels {
namespace {

struct ToHalfElement {
  const float* x;
  uint16_t* half;
  __device__ void operator()(uint64_t i) const { half[i] = ToHalf(x[i]); }
};

struct FromHalfElement {
  const uint16_t* half;
  float* x;
  __device__ void operator()(uint64_t i) const { x[i] = FromHalf(half[i]); }
};

struct ToBfloatElement {
  const float* x;
  uint16_t* bfloat;
  __device__ void operator()(uint64_t i) const { bfloat[i] = ToBfloat(x[i]); }
};

struct FromBfloatElement {
  const uint16_t* bfloat;
  float* x;
  __device__ void operator()(uint64_t i) const { x[i] = FromBfloat(bfloat[i]); }
};

struct ScaleElement {
  float* x;
  float factor;
  __device__ void operator()(uint64_t i) const { x[i] *= factor; }
};

struct CountNotFinite {
  const float* x;
  uint32_t* not_finite_count;
  __device__ void operator()(uint64_t i) const {
    if (!(fabsf(x[i]) < INFINITY)) atomicAdd(not_finite_count, 1u);
  }
};

struct AddDecayElement {
  const float *g, *w;
  float decay;
  float* out;
  __device__ void operator()(uint64_t i) const { out[i] = g[i] + decay * w[i]; }
};

struct EmaElement {
  float* average;
  const float* w;
  float one_minus_decay;
  __device__ void operator()(uint64_t i) const {
    average[i] -= one_minus_decay * (average[i] - w[i]);
  }
};

}  // namespace

int FindCodeForDevice() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, CallForEachElement<ScaleElement>);
}

int FloatToHalfOnDevice(DeviceStream stream, const float* x, size_t n, uint16_t* half) {
  return ForEach(stream, n, ToHalfElement{x, half});
}

int HalfToFloatOnDevice(DeviceStream stream, const uint16_t* half, size_t n, float* x) {
  return ForEach(stream, n, FromHalfElement{half, x});
}

int FloatToBfloatOnDevice(DeviceStream stream, const float* x, size_t n, uint16_t* bfloat) {
  return ForEach(stream, n, ToBfloatElement{x, bfloat});
}

int BfloatToFloatOnDevice(DeviceStream stream, const uint16_t* bfloat, size_t n, float* x) {
  return ForEach(stream, n, FromBfloatElement{bfloat, x});
}

int ScaleOnDevice(DeviceStream stream, float* x, size_t n, float factor) {
  return ForEach(stream, n, ScaleElement{x, factor});
}

int CountNotFiniteOnDevice(DeviceStream stream, const float* x, size_t n,
                           uint32_t* not_finite_count) {
  return ForEach(stream, n, CountNotFinite{x, not_finite_count});
}

int AddDecayOnDevice(DeviceStream stream, const float* g, const float* w, size_t n, float decay,
                     float* out) {
  return ForEach(stream, n, AddDecayElement{g, w, decay, out});
}

int EmaUpdateOnDevice(DeviceStream stream, float* average, const float* w, size_t n,
                      float one_minus_decay) {
  return ForEach(stream, n, EmaElement{average, w, one_minus_decay});
}

}  // namespace tern::kernels
