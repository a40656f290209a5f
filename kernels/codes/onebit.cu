// 1bitSGD on a GPU. Many tensors are encoded in two launches:
//
//   MeansOfGroups  computes v = g + residual (without a residual, v = g), and the two means of each
//                  group. A warp, or a part of it, sums up to 4096 neighbouring elements of a group
//   SignsOfTiles   writes signs and updates the residual. One thread block per tile
//
// and decoded in one launch, ReadTiles. A part is a run of elements of one tensor that has a code
// of its own, and a tile is a range of at most 4096 elements of a part (kernels/device/tiling.h).
#include <cuda_runtime.h>

#include "kernels/codes/code_bytes.cuh"
#include "kernels/codes/onebit.h"
#include "kernels/codes/onebit_math.h"
#include "kernels/device/eight.cuh"
#include "kernels/device/groups.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;

// The sums of one thread, in the form that SumGroups (groups.cuh) needs.
struct LaneSums : OneBitSums {
  __device__ void Add(float v) {
    const bool is_negative = v < 0;
    const double value = v;
    lower += is_negative ? value : 0;
    upper += is_negative ? 0 : value;
    num_negatives += is_negative ? 1 : 0;
  }
  __device__ void AddSum(const LaneSums& other) {
    lower += other.lower;
    upper += other.upper;
    num_negatives += other.num_negatives;
  }
  template <typename MapWord>
  __device__ LaneSums MapWords(const MapWord& map_word) const {
    return {{map_word(lower), map_word(upper), map_word(num_negatives)}};
  }
};

// The elements v, in the form that SumGroups (groups.cuh) needs. With kFeedback, that is, with a
// residual, stores v in place of the residual.
template <bool kFeedback>
struct ElementSource {
  const float* g;
  float* residual;
  __device__ float Load(uint64_t i) const { return kFeedback ? g[i] + residual[i] : g[i]; }
  __device__ void OnLoaded(uint64_t i, float v) const {
    if constexpr (kFeedback) residual[i] = v;
  }
};

template <bool kFeedback>
__global__ void __launch_bounds__(kGroupThreads)
    MeansOfGroups(const float* __restrict__ g, float* __restrict__ residual, DeviceTiling tiling,
                  const GroupedPart* grouped_parts, const CodeRange* ranges,
                  OneBitWorkspace workspace, uint8_t* out, uint32_t* invalid_count) {
  const uint32_t part_index = tiling.tiles[blockIdx.x].part;
  const Part part = tiling.parts[part_index].part;
  const GroupedPart grouped_part = grouped_parts[part_index];
  const ElementSource<kFeedback> source{g + part.begin,
                                        kFeedback ? residual + part.begin : nullptr};
  const auto write_means = [&](uint64_t group, const LaneSums& sums) {
    const uint64_t length = LengthOfGroup(part.count, grouped_part.size, group);
    const float lower = OneBitMean(sums.lower, sums.num_negatives);
    const float upper = OneBitMean(sums.upper, length - sums.num_negatives);
    if (!AreOneBitMeans(lower, upper)) atomicAdd(invalid_count, 1u);
    float* means = workspace.means + 2 * (grouped_part.first_group + group);
    means[0] = lower;
    means[1] = upper;
    uint8_t* code = out + ranges[part_index].begin + group * kOneBitMeansBytes;
    StoreFloat(lower, code);
    StoreFloat(upper, code + sizeof(float));
  };
  SumGroups(tiling, grouped_part.size, static_cast<LaneSums*>(workspace.partial_sums),
            workspace.num_finished, source, write_means);
}

// The means of a group: of its negative elements, and of its other elements.
struct Means {
  float lower, upper;
};

template <bool kFeedback>
__global__ void __launch_bounds__(kThreads)
    SignsOfTiles(const float* g, float* residual, DeviceTiling tiling,
                 const GroupedPart* grouped_parts, const CodeRange* ranges, const float* means,
                 uint8_t* out) {
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const GroupedPart grouped_part = grouped_parts[tile.part];
  const GroupsOfTile tile_groups(grouped_part.size, tile.index);
  uint8_t* signs = out + ranges[tile.part].begin + OneBitMeansSize(part.count, grouped_part.size);
  means += 2 * grouped_part.first_group;
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t begin = uint64_t{tile.index} * kTile + first;
    if (begin >= part.count) break;
    const uint32_t count = AtMostEight(part.count - begin);
    EightFloats v = Load((kFeedback ? residual : g) + part.begin + begin, count);
    uint32_t byte = 0;
#pragma unroll
    for (uint32_t k = 0; k < kEight; ++k) byte |= (v.x[k] < 0 ? 1u : 0u) << k;
    signs[begin / kEight] = static_cast<uint8_t>(byte);
    if constexpr (!kFeedback) continue;
    Means means_of_group{};
    tile_groups.VisitEight(
        tile_groups.PositionOf(first), count,
        [&](uint64_t group, uint32_t) {
          means_of_group = {means[2 * group], means[2 * group + 1]};
        },
        [&](uint32_t k) { v.x[k] -= v.x[k] < 0 ? means_of_group.lower : means_of_group.upper; });
    Store(v, residual + part.begin + begin, count);
  }
}

// Checks the size and the unused bits of a part's code of `count` elements in groups of
// `group_size` elements.
__device__ bool IsWellFormed(const uint8_t* codes, const CodeRange& range, uint64_t count,
                             uint64_t group_size) {
  if (range.size != OneBitSize(count, group_size)) return false;
  const uint32_t last_byte = codes[range.begin + range.size - 1];
  return count % 8 == 0 || last_byte >> count % 8 == 0;
}

__global__ void __launch_bounds__(kThreads)
    ReadTiles(DeviceTiling tiling, const uint8_t* codes, const GroupedPart* grouped_parts,
              const CodeRange* ranges, float* arena, uint32_t* invalid_count) {
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const GroupedPart grouped_part = grouped_parts[tile.part];
  const CodeRange range = ranges[tile.part];
  if (!IsWellFormed(codes, range, part.count, grouped_part.size)) {
    if (threadIdx.x == 0) atomicAdd(invalid_count, 1u);
    return;
  }
  const GroupsOfTile tile_groups(grouped_part.size, tile.index);
  const uint8_t* signs = codes + range.begin + OneBitMeansSize(part.count, grouped_part.size);
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t begin = uint64_t{tile.index} * kTile + first;
    if (begin >= part.count) break;
    const uint32_t count = AtMostEight(part.count - begin);
    const uint32_t byte = signs[begin / kEight];
    Means means_of_group{};
    EightFloats v;
    tile_groups.VisitEight(
        tile_groups.PositionOf(first), count,
        [&](uint64_t group, uint32_t) {
          const uint64_t means_at = range.begin + group * kOneBitMeansBytes;
          means_of_group = {LoadFloat(codes, means_at), LoadFloat(codes, means_at + sizeof(float))};
          if (!AreOneBitMeans(means_of_group.lower, means_of_group.upper))
            atomicAdd(invalid_count, 1u);
        },
        [&](uint32_t k) {
          v.x[k] = (byte >> k & 1) != 0 ? means_of_group.lower : means_of_group.upper;
        });
    Store(v, arena + part.begin + begin, count);
  }
}

}  // namespace

int OneBitOnDevice(DeviceStream stream, const float* g, float* residual, const DeviceTiling& tiling,
                   const GroupedPart* grouped_parts, const CodeRange* ranges,
                   const OneBitWorkspace& workspace, uint8_t* out, uint32_t* invalid_count) {
  const bool has_feedback = residual != nullptr;
  const int error = Launch(has_feedback ? MeansOfGroups<true> : MeansOfGroups<false>,
                           tiling.tile_count, kGroupThreads, stream, g, residual, tiling,
                           grouped_parts, ranges, workspace, out, invalid_count);
  if (error != 0) return error;
  return Launch(has_feedback ? SignsOfTiles<true> : SignsOfTiles<false>, tiling.tile_count,
                kThreads, stream, g, residual, tiling, grouped_parts, ranges, workspace.means, out);
}

int ReadOneBitOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* codes,
                       const GroupedPart* grouped_parts, const CodeRange* ranges, float* arena,
                       uint32_t* invalid_count) {
  return Launch(ReadTiles, tiling.tile_count, kThreads, stream, tiling, codes, grouped_parts,
                ranges, arena, invalid_count);
}

}  // namespace tern::kernels
