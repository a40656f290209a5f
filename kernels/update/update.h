// An optimizer's step on a GPU, and the decoding of sums of ternary codes that goes with it in one
// pass.
#pragma once

#include <cstdint>

#include "kernels/device/tiling.h"
#include "kernels/update/optimizer_math.h"

namespace tern::kernels {

// Where the planes of a part's sum begin (planes.h: SumBits(contributors) planes, each of
// PlaneBytes(count) bytes), and the scaler of the sum.
struct SumPlace {
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
                                          const uint8_t* sums, const SumPlace* places,
                                          uint32_t contributors, const UpdateStep& step,
                                          const TensorRates* rates, const ModelArenas& model,
                                          uint32_t* bad);

// The two halves of it, for callers that need the means or bring their own: DecodeOnDevice writes
// the means to their parts of an arena, UpdateOnDevice applies a step with them.
[[nodiscard]] int DecodeOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const uint8_t* sums, const SumPlace* places, uint32_t contributors,
                                 float* means, uint32_t* bad);
[[nodiscard]] int UpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const float* means, const UpdateStep& step,
                                 const TensorRates* rates, const ModelArenas& model);

}  // namespace tern::kernels
