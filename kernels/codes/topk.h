// Deep gradient compression (Lin et al. 2018) on a GPU, except for encoding: the codec's memory,
// and what is needed to choose the threshold, which is the least magnitude that is sent. The
// results are those of common/codec/dgc_memory.h and common/codec/topk.cc. The host chooses samples
// and thresholds, with the counts and magnitudes that these functions return.
//
// A part is a run of elements of the arena (one array with all tensors); a tile is a range of at
// most 4096 elements of a part (kernels/device/tiling.h).
#pragma once

#include <cstdint>

#include "kernels/codes/dgc_math.h"
#include "kernels/codes/stats.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

// Adds the gradients g to the codec's memory: to `u`, the momentum (null if the momentum factor is
// 0), and to `v`, the values that are encoded (DgcMemory::Compensate). Each part is a whole tensor.
// stats[p] are the statistics of part p of g; `stats` is null without clipping. One launch.
[[nodiscard]] int AddToDgcOnDevice(DeviceStream stream, const float* g, const DeviceTiling& tiling,
                                   const DgcStep& step, const DeviceStats* stats, float* u,
                                   float* v);

// Sets counts[p] to the number of elements of part p whose magnitude is at least thresholds[p], or
// to 0 if the threshold is negative or NaN. `partial_counts` is memory for intermediate results,
// one per tile. `num_finished` has one counter per part, which must be zero before the call and is
// zero after it. One launch.
[[nodiscard]] int CountAtLeastOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, const float* thresholds,
                                       uint32_t* partial_counts, uint32_t* num_finished,
                                       uint32_t* counts);

constexpr uint32_t kSelectBins = 2048;  // bins of a histogram
// Device memory for intermediate results of KthMagnitudeOnDevice. `histograms` and `num_finished`,
// which counts finished work, must be zero before a call, and are zero after it; the other arrays
// need not be initialized.
struct SelectWorkspace {
  uint32_t* histograms = nullptr;    // kSelectBins per part
  uint32_t* num_finished = nullptr;  // one counter per part
  uint32_t* upper_bits = nullptr;    // one per part: the upper bits of the result found so far
  // One per part: the rank of the result among the magnitudes with the same upper bits.
  uint32_t* remaining_ranks = nullptr;
};

// Sets kth[p] to the ks[p]-th largest magnitude of part p; leaves kth[p] unchanged if ks[p] is 0.
// Element i of part p is arena[begin + i * strides[p]], so that a part may be a sample of a tensor.
// REQUIRES ks[p] at most the part's count. Three launches.
[[nodiscard]] int KthMagnitudeOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, const uint64_t* strides,
                                       const uint32_t* ks, const SelectWorkspace& workspace,
                                       float* kth);

}  // namespace tern::kernels
