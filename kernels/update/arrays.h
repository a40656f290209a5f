// Operations on arrays of n elements on a GPU, element by element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/tiling.h"

namespace tern::kernels {

// Returns 0 if this program has code of its kernels for the device, else CUDA's error.
[[nodiscard]] int FindCodeForDevice();

// Adds the number of values that are infinite or NaN to *not_finite_count.
[[nodiscard]] int CountNotFiniteOnDevice(DeviceStream stream, const float* x, size_t n,
                                         uint32_t* not_finite_count);

// GPU versions of the functions that kernels/codes/half.h and kernels/update/optimizer.h declare
// under the same names, without OnDevice.
[[nodiscard]] int FloatToHalfOnDevice(DeviceStream stream, const float* x, size_t n,
                                      uint16_t* half);
[[nodiscard]] int HalfToFloatOnDevice(DeviceStream stream, const uint16_t* half, size_t n,
                                      float* x);
[[nodiscard]] int FloatToBfloatOnDevice(DeviceStream stream, const float* x, size_t n,
                                        uint16_t* bfloat);
[[nodiscard]] int BfloatToFloatOnDevice(DeviceStream stream, const uint16_t* bfloat, size_t n,
                                        float* x);
[[nodiscard]] int ScaleOnDevice(DeviceStream stream, float* x, size_t n, float factor);
[[nodiscard]] int AddDecayOnDevice(DeviceStream stream, const float* g, const float* w, size_t n,
                                   float decay, float* out);
[[nodiscard]] int EmaUpdateOnDevice(DeviceStream stream, float* average, const float* w, size_t n,
                                    float one_minus_decay);

}  // namespace tern::kernels
