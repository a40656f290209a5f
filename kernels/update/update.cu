// Updates weights on a GPU (update.h). The gradients are means: given as floats, or decoded in the
// same kernel from sums of ternary codes in bit planes (kernels/codes/planes.h). A thread block
// processes a tile, that is, up to 4096 elements of a part (kernels/device/tiling.h). A thread
// processes eight elements at a time, which are a byte of each plane.
#include <cuda_runtime.h>

#include "kernels/codes/planes.h"
#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"
#include "kernels/update/update.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kMaxBits = 12;  // the most bits of a sum: those of 2047 contributors

// There is a kernel for each number of bits from 2 to 5 (1 to 15 contributors). Such a kernel loads
// all planes at once, and its table of means takes little shared memory. One more kernel, for
// kAnyBits, processes any number of bits.
constexpr uint32_t kAnyBits = 0;

// The sums of the codes of a part, in kBits bit planes (kAnyBits: in `runtime_bits` planes).
template <uint32_t kBits>
struct PlaneSums {
  __device__ uint32_t NumBits() const { return kBits == kAnyBits ? runtime_bits : kBits; }

  const uint8_t* planes;
  uint64_t stride;  // bytes from one plane to the next
  uint32_t runtime_bits, contributors;
  const float* means;  // in shared memory, indexed by sum + contributors
};

// Decodes the means of `count` elements, at most eight, from byte `byte` of the planes. Returns
// false if a sum is invalid.
template <uint32_t kBits>
__device__ bool DecodeEight(const PlaneSums<kBits>& sums, uint64_t byte, uint32_t count,
                            EightFloats* g) {
  constexpr uint32_t kPlanesAtOnce = kBits == kAnyBits ? 1 : kBits;
  const uint32_t count_mask = (1u << count) - 1;
  uint32_t raw_sums[kEight] = {};
  for (uint32_t first = 0; first < sums.NumBits(); first += kPlanesAtOnce) {
    uint32_t planes[kPlanesAtOnce];
#pragma unroll
    for (uint32_t p = 0; p < kPlanesAtOnce; ++p)
      planes[p] = sums.planes[(first + p) * sums.stride + byte] & count_mask;
#pragma unroll
    for (uint32_t p = 0; p < kPlanesAtOnce; ++p) {
#pragma unroll
      for (uint32_t i = 0; i < kEight; ++i) raw_sums[i] |= (planes[p] >> i & 1) << (first + p);
    }
  }
  uint32_t max_index = 0;
#pragma unroll
  for (uint32_t i = 0; i < kEight; ++i) {
    // A negative sum is stored as sum + 2^bits; the mask removes the 2^bits.
    const uint32_t index = (raw_sums[i] + sums.contributors) & ((1u << sums.NumBits()) - 1);
    max_index = max_index > index ? max_index : index;
    g->x[i] = sums.means[index];
  }
  return max_index <= 2 * sums.contributors;
}

// Fills the table means[sum + contributors] with the mean of each possible sum. Other entries are
// unspecified.
__device__ void FillMeans(uint32_t bits, uint32_t contributors, float scaler, float* means) {
  const double divisor = contributors;
  for (uint32_t i = threadIdx.x; i < 1u << bits; i += kThreads)
    means[i] = static_cast<float>(static_cast<double>(scaler) * (i - divisor) / divisor);
}

// Calls work(at, count) for each run of eight elements of the tile that belongs to this thread. The
// run begins at element `at` of the part and has `count` elements: eight, or fewer at the end of
// the part.
template <typename Work>
__device__ void ForEachEight(const Part& part, uint32_t tile, const Work& work) {
  const uint64_t tile_begin = uint64_t{tile} * kTile;
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t at = tile_begin + first;
    if (at >= part.count) break;
    work(at, AtMostEight(part.count - at));
  }
}

// Updates `count` (at most eight) elements from index `at` of the arenas on, with the gradients
// that means() returns. Calls means() after it has started all other loads.
template <UpdateRule kRule, typename Means>
__device__ void UpdateEight(const UpdateStep& step, const TensorRates& rate, uint64_t at,
                            uint32_t count, const ModelArenas& model, const Means& means) {
  EightFloats w = Load(model.weights + at, count), m{}, v{};
  if constexpr (HasFirstMoment(kRule)) m = Load(model.first_moment + at, count);
  if constexpr (HasSecondMoment(kRule)) v = Load(model.second_moment + at, count);
  const EightFloats g = means();
#pragma unroll
  for (uint32_t i = 0; i < kEight; ++i)
    UpdateElement<kRule>(step, rate, g.x[i], &w.x[i], &m.x[i], &v.x[i]);
  Store(w, model.weights + at, count);
  if constexpr (HasFirstMoment(kRule)) Store(m, model.first_moment + at, count);
  if constexpr (HasSecondMoment(kRule)) Store(v, model.second_moment + at, count);
}

// All sums that a launch decodes, and how they are coded.
struct CodedSums {
  const uint8_t* bytes;
  const SumLocation* locations;
  uint32_t contributors, bits;
  uint32_t* invalid_count;
};

// Calls use(at, count, means) for each run that ForEachEight gives this thread. `at` is the index
// of the first element of the run in the arena. means() decodes and returns the means of the run.
template <uint32_t kBits, typename Use>
__device__ void DecodeTile(const DeviceTiling& tiling, const CodedSums& coded, const Use& use) {
  __shared__ float means[1u << (kBits == kAnyBits ? kMaxBits : kBits)];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const SumLocation location = coded.locations[tile.part];
  const PlaneSums<kBits> sums{coded.bytes + location.begin, (part.count + 7) / 8, coded.bits,
                              coded.contributors, means};
  FillMeans(sums.NumBits(), coded.contributors, location.scaler, means);
  __syncthreads();
  ForEachEight(part, tile.index, [&](uint64_t at, uint32_t count) {
    use(part.begin + at, count, [&] {
      EightFloats g;
      if (!DecodeEight(sums, at / kEight, count, &g)) atomicAdd(coded.invalid_count, 1u);
      return g;
    });
  });
}

template <uint32_t kBits>
__global__ void __launch_bounds__(kThreads)
    DecodeTiles(DeviceTiling tiling, CodedSums coded, float* mean_arena) {
  DecodeTile<kBits>(tiling, coded, [&](uint64_t at, uint32_t count, const auto& means) {
    Store(means(), mean_arena + at, count);
  });
}

template <UpdateRule kRule, uint32_t kBits>
__global__ void __launch_bounds__(kThreads)
    DecodeAndUpdateTiles(DeviceTiling tiling, CodedSums coded, UpdateStep step,
                         const TensorRates* rates, ModelArenas model) {
  const TensorRates rate = rates[tiling.tiles[blockIdx.x].part];
  DecodeTile<kBits>(tiling, coded, [&](uint64_t at, uint32_t count, const auto& means) {
    UpdateEight<kRule>(step, rate, at, count, model, means);
  });
}

template <UpdateRule kRule>
__global__ void __launch_bounds__(kThreads)
    UpdateTiles(DeviceTiling tiling, const float* means, UpdateStep step, const TensorRates* rates,
                ModelArenas model) {
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const TensorRates rate = rates[tile.part];
  ForEachEight(part, tile.index, [&](uint64_t at, uint32_t count) {
    const uint64_t arena_index = part.begin + at;
    UpdateEight<kRule>(step, rate, arena_index, count, model,
                       [&] { return Load(means + arena_index, count); });
  });
}

// DispatchRule returns get_kernel.operator()<kRule>() for the rule of a step; DispatchBits returns
// get_kernel.operator()<kBits>() for a number of bits. They select the kernel that is compiled for
// the rule or for the bits.
template <typename GetKernel>
auto DispatchRule(UpdateRule rule, const GetKernel& get_kernel) {
  switch (rule) {
    case UpdateRule::kMomentum:
      return get_kernel.template operator()<UpdateRule::kMomentum>();
    case UpdateRule::kNesterov:
      return get_kernel.template operator()<UpdateRule::kNesterov>();
    case UpdateRule::kLars:
      return get_kernel.template operator()<UpdateRule::kLars>();
    case UpdateRule::kAdam:
      return get_kernel.template operator()<UpdateRule::kAdam>();
    case UpdateRule::kRmsprop:
      return get_kernel.template operator()<UpdateRule::kRmsprop>();
    case UpdateRule::kSgd:
      break;
  }
  return get_kernel.template operator()<UpdateRule::kSgd>();
}
template <typename GetKernel>
auto DispatchBits(uint32_t bits, const GetKernel& get_kernel) {
  switch (bits) {
    case 2:
      return get_kernel.template operator()<2>();
    case 3:
      return get_kernel.template operator()<3>();
    case 4:
      return get_kernel.template operator()<4>();
    case 5:
      return get_kernel.template operator()<5>();
    default:
      return get_kernel.template operator()<kAnyBits>();
  }
}

// The number of planes of a sum.
uint32_t NumPlanes(uint32_t contributors) {
  return static_cast<uint32_t>(SumBits(static_cast<int>(contributors)));
}

}  // namespace

int DecodeAndUpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* sums,
                            const SumLocation* locations, uint32_t contributors,
                            const UpdateStep& step, const TensorRates* rates,
                            const ModelArenas& model, uint32_t* invalid_count) {
  const CodedSums coded{sums, locations, contributors, NumPlanes(contributors), invalid_count};
  const auto kernel = DispatchBits(coded.bits, [&]<uint32_t kBits>() {
    return DispatchRule(step.rule,
                        [&]<UpdateRule kRule>() { return DecodeAndUpdateTiles<kRule, kBits>; });
  });
  return Launch(kernel, tiling.tile_count, kThreads, stream, tiling, coded, step, rates, model);
}

int DecodeOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* sums,
                   const SumLocation* locations, uint32_t contributors, float* means,
                   uint32_t* invalid_count) {
  const CodedSums coded{sums, locations, contributors, NumPlanes(contributors), invalid_count};
  const auto kernel =
      DispatchBits(coded.bits, [&]<uint32_t kBits>() { return DecodeTiles<kBits>; });
  return Launch(kernel, tiling.tile_count, kThreads, stream, tiling, coded, means);
}

int UpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const float* means,
                   const UpdateStep& step, const TensorRates* rates, const ModelArenas& model) {
  const auto kernel =
      DispatchRule(step.rule, [&]<UpdateRule kRule>() { return UpdateTiles<kRule>; });
  return Launch(kernel, tiling.tile_count, kThreads, stream, tiling, means, step, rates, model);
}

}  // namespace tern::kernels
