// An optimizer's step on a GPU, alone or together with the decoding of sums of ternary codes in one
// pass over memory. A part is a run of elements of the arena (kernels/device/tiling.h).
#pragma once

#include <cstdint>

#include "kernels/device/tiling.h"
#include "kernels/update/optimizer_math.h"

namespace tern::kernels {

// The sum of a part of `count` elements: bit planes (kernels/codes/planes.h) with
// SumBits(contributors) planes of PlaneBytes(count) bytes each.
struct SumLocation {
  uint64_t begin = 0;  // byte offset of the planes in the buffer of sums
  float scaler = 0;    // the number that each code (-1, 0 or 1) multiplies
};

// The arenas of a model on the device: the weights, and the state of the update rule (null if the
// rule has no such state).
struct ModelArenas {
  float* weights = nullptr;
  float* first_moment = nullptr;   // the momentum, or Adam's m
  float* second_moment = nullptr;  // Adam's v, or RMSProp's mean square
};

// Decodes the means of the codes of `contributors` workers from `sums`, and applies the update step
// with these means as gradients, in one pass over the model. locations[p] and rates[p] belong to
// part p. Increases *invalid_count if the sum of an element is invalid; the result for the element
// is unspecified. REQUIRES 1 to 2047 contributors.
[[nodiscard]] int DecodeAndUpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                          const uint8_t* sums, const SumLocation* locations,
                                          uint32_t contributors, const UpdateStep& step,
                                          const TensorRates* rates, const ModelArenas& model,
                                          uint32_t* invalid_count);

// The two halves of DecodeAndUpdateOnDevice: DecodeOnDevice writes the means to the arena `means`,
// and UpdateOnDevice applies the update step with the means in the arena.
[[nodiscard]] int DecodeOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const uint8_t* sums, const SumLocation* locations,
                                 uint32_t contributors, float* means, uint32_t* invalid_count);
[[nodiscard]] int UpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const float* means, const UpdateStep& step,
                                 const TensorRates* rates, const ModelArenas& model);

}  // namespace tern::kernels
