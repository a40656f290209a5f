// An optimizer's step on a GPU, and the decoding of sums of ternary codes that goes with it in one
// pass.
#pragma once

#include <cstdint>

#include "kernels/device/tiling.h"
#include "kernels/update/optimizer_math.h"

namespace tern::kernels {

// The byte offset of the planes of a part's sum (planes.h: SumBits(contributors) planes, each of
// PlaneBytes(count) bytes), and the scaler of the sum.
struct SumLocation {
  uint64_t begin = 0;
  float scaler = 0;
};

// The arenas of a model on the device: the weights, and the state of the update rule (null where
// the rule has none).
struct ModelArenas {
  float* weights = nullptr;
  float* first = nullptr;   // momentum; Adam's m
  float* second = nullptr;  // Adam's v
};

// Decodes the means of `contributors` workers' codes (DecodeMean) and applies the update step with
// them, in one pass over the model. Increments *bad where a sum is invalid; outputs of those
// elements are unspecified. `rates`: one per part. REQUIRES 1 to 2047 contributors.
[[nodiscard]] int DecodeAndUpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                          const uint8_t* sums, const SumLocation* locations,
                                          uint32_t contributors, const UpdateStep& step,
                                          const TensorRates* rates, const ModelArenas& model,
                                          uint32_t* bad);

// The two halves of DecodeAndUpdateOnDevice. DecodeOnDevice writes the means to their parts of an
// arena, for callers that need them; UpdateOnDevice applies a step with given means.
[[nodiscard]] int DecodeOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const uint8_t* sums, const SumLocation* locations,
                                 uint32_t contributors, float* means, uint32_t* bad);
[[nodiscard]] int UpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const float* means, const UpdateStep& step,
                                 const TensorRates* rates, const ModelArenas& model);

}  // namespace tern::kernels
