// Selection of the largest elements on a GPU, with the memory of deep gradient compression: the
// same floats as in common/codec/dgc_memory.h and common/codec/topk.cc. The host samples and
// chooses thresholds, with the counts that these kernels return.
#pragma once

#include <cstdint>

#include "kernels/codes/dgc_math.h"
#include "kernels/codes/stats.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

// Memory::Compensate: adds g to `u`, the momentum (null where the factor m is 0), and to `v`, the
// values that are then encoded. Parts are whole tensors; stats[p] are the statistics of part p of
// g, null without clipping. One launch.
[[nodiscard]] int AddToDgcOnDevice(DeviceStream stream, const float* g, const DeviceTiling& tiling,
                                   const DgcStep& step, const DeviceStats* stats, float* u,
                                   float* v);

// counts[p] = how many elements of part p have a magnitude of at least thresholds[p]; 0 where the
// threshold is negative or NaN. `partial`: one per tile. `done`: one zeroed counter per part, reset
// on return. One launch.
[[nodiscard]] int CountFromOnDevice(DeviceStream stream, const float* arena,
                                    const DeviceTiling& tiling, const float* thresholds,
                                    uint32_t* partial, uint32_t* done, uint32_t* counts);

// Workspace of a selection. `histograms` and `done` are zeroed counters, reset on return.
constexpr uint32_t kSelectBins = 2048;
struct SelectWorkspace {
  uint32_t* histograms = nullptr;  // kSelectBins per part
  uint32_t* done = nullptr;        // per part
  uint32_t* upper = nullptr;       // per part: the upper bits of the k-th largest, as found so far
  uint32_t* remaining = nullptr;   // per part: its rank among the elements with the same upper bits
};

// kth[p] = KthMagnitude (select.h) of part p for k = ks[p]; unchanged where ks[p] is 0. Element i
// of a part is arena[begin + i * strides[p]], so parts may be samples. REQUIRES ks[p] at most the
// part's count. Three launches.
[[nodiscard]] int KthMagnitudeOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, const uint64_t* strides,
                                       const uint32_t* ks, const SelectWorkspace& workspace,
                                       float* kth);

}  // namespace tern::kernels
