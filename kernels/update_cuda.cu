// Sums to weights on a GPU, in one pass or by their means: a thread block a tile; a thread takes
// eight elements at a time, a byte of each plane.
#include <cuda_runtime.h>

#include "kernels/device.h"
#include "kernels/eight_inl.h"
#include "kernels/launch_inl.h"
#include "kernels/planes.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kMostContributors = 2047;

struct Sums {
  const uint8_t* planes;  // of the part
  uint64_t stride;
  uint32_t bits, contributors;
  const float* means;  // by the sum + contributors, in shared memory
};

// Elements [8 byte, 8 byte + 8) of a part; whether all are sums that can be.
__device__ bool DecodeEight(const Sums& sums, uint64_t byte, uint32_t count, Eight* g) {
  uint32_t k[kEight] = {};
  for (uint32_t p = 0; p < sums.bits; ++p) {
    const uint32_t plane = sums.planes[p * sums.stride + byte];
#pragma unroll
    for (uint32_t i = 0; i < kEight; ++i) k[i] |= (plane >> i & 1) << p;
  }
  const uint32_t unused = 32 - sums.bits;
  bool good = true;
#pragma unroll
  for (uint32_t i = 0; i < kEight; ++i) {
    const int32_t sum = static_cast<int32_t>(k[i] << unused) >> unused;
    const auto place = static_cast<uint32_t>(sum + static_cast<int32_t>(sums.contributors));
    const bool can_be = place <= 2 * sums.contributors;
    good = good && (can_be || i >= count);
    g->x[i] = sums.means[can_be ? place : 0];
  }
  return good;
}

// As MeanTable's.
__device__ void FillMeans(uint32_t contributors, float scaler, float* means) {
  const double n = contributors;
  for (uint32_t i = threadIdx.x; i <= 2 * contributors; i += kThreads)
    means[i] = static_cast<float>(static_cast<double>(scaler) * (i - n) / n);
}

// work(at, count) for the eights of this block's tile: `count` elements of the
// part from `at` on.
template <typename Work>
__device__ void ForEights(const Part& part, uint32_t tile, const Work& work) {
  const uint64_t tile_begin = uint64_t{tile} * kTile;
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t at = tile_begin + first;
    if (at >= part.count) break;
    work(at, EightOf(part.count - at));
  }
}

// `at`: in the arenas.
template <Rule kRule>
__device__ void UpdateEight(const UpdateStep& step, const TensorRates& rate, const Eight& g,
                            uint64_t at, uint32_t count, const ModelArenas& model) {
  Eight w = Load(model.weights + at, count), m{}, v{};
  if constexpr (kRule != Rule::kSgd) m = Load(model.first + at, count);
  if constexpr (kRule == Rule::kAdam) v = Load(model.second + at, count);
#pragma unroll
  for (uint32_t i = 0; i < kEight; ++i)
    UpdateElement<kRule>(step, rate, g.x[i], &w.x[i], &m.x[i], &v.x[i]);
  Store(w, model.weights + at, count);
  if constexpr (kRule != Rule::kSgd) Store(m, model.first + at, count);
  if constexpr (kRule == Rule::kAdam) Store(v, model.second + at, count);
}

// use(at, count, g) with the means of the tile's eights, `at` as UpdateEight's.
template <typename Use>
__device__ void DecodeTile(const DeviceTiling& tiling, const uint8_t* bytes, const SumPlace* places,
                           uint32_t contributors, uint32_t bits, uint32_t* bad, const Use& use) {
  __shared__ float means[2 * kMostContributors + 1];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const SumPlace place = places[tile.part];
  FillMeans(contributors, place.scaler, means);
  __syncthreads();
  const Sums sums{bytes + place.begin, (part.count + 7) / 8, bits, contributors, means};
  ForEights(part, tile.index, [&](uint64_t at, uint32_t count) {
    Eight g;
    if (!DecodeEight(sums, at / kEight, count, &g)) atomicAdd(bad, 1u);
    use(part.begin + at, count, g);
  });
}

__global__ void __launch_bounds__(kThreads)
    DecodeTiles(DeviceTiling tiling, const uint8_t* bytes, const SumPlace* places,
                uint32_t contributors, uint32_t bits, float* to, uint32_t* bad) {
  DecodeTile(tiling, bytes, places, contributors, bits, bad,
             [&](uint64_t at, uint32_t count, const Eight& g) { Store(g, to + at, count); });
}

template <Rule kRule>
__global__ void __launch_bounds__(kThreads)
    DecodeAndUpdateTiles(DeviceTiling tiling, const uint8_t* bytes, const SumPlace* places,
                         uint32_t contributors, uint32_t bits, UpdateStep step,
                         const TensorRates* rates, ModelArenas model, uint32_t* bad) {
  const TensorRates rate = rates[tiling.tiles[blockIdx.x].part];
  DecodeTile(tiling, bytes, places, contributors, bits, bad,
             [&](uint64_t at, uint32_t count, const Eight& g) {
               UpdateEight<kRule>(step, rate, g, at, count, model);
             });
}

template <Rule kRule>
__global__ void __launch_bounds__(kThreads)
    UpdateTiles(DeviceTiling tiling, const float* means, UpdateStep step, const TensorRates* rates,
                ModelArenas model) {
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const TensorRates rate = rates[tile.part];
  ForEights(part, tile.index, [&](uint64_t at, uint32_t count) {
    const uint64_t place = part.begin + at;
    UpdateEight<kRule>(step, rate, Load(means + place, count), place, count, model);
  });
}

// Kernels::Get<kRule>() of a step's rule.
template <typename Kernels>
auto KernelOf(Rule rule) {
  switch (rule) {
    case Rule::kMomentum:
      return Kernels::template Get<Rule::kMomentum>();
    case Rule::kNesterov:
      return Kernels::template Get<Rule::kNesterov>();
    case Rule::kLars:
      return Kernels::template Get<Rule::kLars>();
    case Rule::kAdam:
      return Kernels::template Get<Rule::kAdam>();
    case Rule::kSgd:
      break;
  }
  return Kernels::template Get<Rule::kSgd>();
}

struct OfSums {
  template <Rule kRule>
  static auto Get() {
    return DecodeAndUpdateTiles<kRule>;
  }
};
struct OfMeans {
  template <Rule kRule>
  static auto Get() {
    return UpdateTiles<kRule>;
  }
};

uint32_t PlanesOf(uint32_t contributors) {
  return static_cast<uint32_t>(SumBits(static_cast<int>(contributors)));
}

}  // namespace

int DecodeAndUpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* sums,
                            const SumPlace* places, uint32_t contributors, const UpdateStep& step,
                            const TensorRates* rates, const ModelArenas& model, uint32_t* bad) {
  return Launch(KernelOf<OfSums>(step.rule), tiling.tile_count, kThreads, stream, tiling, sums,
                places, contributors, PlanesOf(contributors), step, rates, model, bad);
}

int DecodeOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* sums,
                   const SumPlace* places, uint32_t contributors, float* means, uint32_t* bad) {
  return Launch(DecodeTiles, tiling.tile_count, kThreads, stream, tiling, sums, places,
                contributors, PlanesOf(contributors), means, bad);
}

int UpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const float* means,
                   const UpdateStep& step, const TensorRates* rates, const ModelArenas& model) {
  return Launch(KernelOf<OfMeans>(step.rule), tiling.tile_count, kThreads, stream, tiling, means,
                step, rates, model);
}

}  // namespace tern::kernels
