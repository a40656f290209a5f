// Sums to weights on a GPU, in one pass or by their means: a thread block a tile; a thread takes
// eight elements at a time, a byte of each plane.
#include <cuda_runtime.h>

#include "kernels/codes/planes.h"
#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"
#include "kernels/update/update.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kMostBits = 12;  // of the sums of 2047 contributors

// Kernels are built for sums of these numbers of bits (1 to 15 contributors), so that what is read
// of all planes is on its way at once and the means take little shared memory; 0: any.
constexpr uint32_t kAnyBits = 0;

template <uint32_t kBits>
struct Sums {
  __device__ uint32_t Bits() const { return kBits == kAnyBits ? any_bits : kBits; }

  const uint8_t* planes;  // of the part
  uint64_t stride;
  uint32_t any_bits, contributors;
  const float* means;  // by the sum + contributors, in shared memory
};

// Elements [8 byte, 8 byte + 8) of a part; whether all are sums that can be.
template <uint32_t kBits>
__device__ bool DecodeEight(const Sums<kBits>& sums, uint64_t byte, uint32_t count, Eight* g) {
  constexpr uint32_t kAtOnce = kBits == kAnyBits ? 1 : kBits;
  const uint32_t there = (1u << count) - 1;
  uint32_t k[kEight] = {};
  for (uint32_t first = 0; first < sums.Bits(); first += kAtOnce) {
    uint32_t planes[kAtOnce];
#pragma unroll
    for (uint32_t p = 0; p < kAtOnce; ++p)
      planes[p] = sums.planes[(first + p) * sums.stride + byte] & there;
#pragma unroll
    for (uint32_t p = 0; p < kAtOnce; ++p) {
#pragma unroll
      for (uint32_t i = 0; i < kEight; ++i) k[i] |= (planes[p] >> i & 1) << (first + p);
    }
  }
  uint32_t most = 0;
#pragma unroll
  for (uint32_t i = 0; i < kEight; ++i) {
    // The sum is k less 2^bits where it is negative, which the mask does for it.
    const uint32_t place = (k[i] + sums.contributors) & ((1u << sums.Bits()) - 1);
    most = most > place ? most : place;
    g->x[i] = sums.means[place];
  }
  return most <= 2 * sums.contributors;
}

// As MeanTable's; and something for the sums of as many bits that cannot be.
__device__ void FillMeans(uint32_t bits, uint32_t contributors, float scaler, float* means) {
  const double n = contributors;
  for (uint32_t i = threadIdx.x; i < 1u << bits; i += kThreads)
    means[i] = static_cast<float>(static_cast<double>(scaler) * (i - n) / n);
}

// Calls work(at, count) for the runs of eight of this block's tile: `count` elements of the part,
// from `at` on.
template <typename Work>
__device__ void ForEights(const Part& part, uint32_t tile, const Work& work) {
  const uint64_t tile_begin = uint64_t{tile} * kTile;
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t at = tile_begin + first;
    if (at >= part.count) break;
    work(at, EightOf(part.count - at));
  }
}

// `at`: in the arenas. means(): what is decoded or read last, when the rest is on its way.
template <Rule kRule, typename Means>
__device__ void UpdateEight(const UpdateStep& step, const TensorRates& rate, uint64_t at,
                            uint32_t count, const ModelArenas& model, const Means& means) {
  Eight w = Load(model.weights + at, count), m{}, v{};
  if constexpr (kRule != Rule::kSgd) m = Load(model.first + at, count);
  if constexpr (kRule == Rule::kAdam) v = Load(model.second + at, count);
  const Eight g = means();
#pragma unroll
  for (uint32_t i = 0; i < kEight; ++i)
    UpdateElement<kRule>(step, rate, g.x[i], &w.x[i], &m.x[i], &v.x[i]);
  Store(w, model.weights + at, count);
  if constexpr (kRule != Rule::kSgd) Store(m, model.first + at, count);
  if constexpr (kRule == Rule::kAdam) Store(v, model.second + at, count);
}

// Where the sums of a launch are, and what they are of.
struct Coded {
  const uint8_t* bytes;
  const SumPlace* places;
  uint32_t contributors, bits;
  uint32_t* bad;
};

// use(at, count, means) for the tile's eights, `at` as UpdateEight's; means() decodes them.
template <uint32_t kBits, typename Use>
__device__ void DecodeTile(const DeviceTiling& tiling, const Coded& coded, const Use& use) {
  __shared__ float means[1u << (kBits == kAnyBits ? kMostBits : kBits)];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const SumPlace place = coded.places[tile.part];
  const Sums<kBits> sums{coded.bytes + place.begin, (part.count + 7) / 8, coded.bits,
                         coded.contributors, means};
  FillMeans(sums.Bits(), coded.contributors, place.scaler, means);
  __syncthreads();
  ForEights(part, tile.index, [&](uint64_t at, uint32_t count) {
    use(part.begin + at, count, [&] {
      Eight g;
      if (!DecodeEight(sums, at / kEight, count, &g)) atomicAdd(coded.bad, 1u);
      return g;
    });
  });
}

template <uint32_t kBits>
__global__ void __launch_bounds__(kThreads)
    DecodeTiles(DeviceTiling tiling, Coded coded, float* to) {
  DecodeTile<kBits>(tiling, coded, [&](uint64_t at, uint32_t count, const auto& means) {
    Store(means(), to + at, count);
  });
}

template <Rule kRule, uint32_t kBits>
__global__ void __launch_bounds__(kThreads)
    DecodeAndUpdateTiles(DeviceTiling tiling, Coded coded, UpdateStep step,
                         const TensorRates* rates, ModelArenas model) {
  const TensorRates rate = rates[tiling.tiles[blockIdx.x].part];
  DecodeTile<kBits>(tiling, coded, [&](uint64_t at, uint32_t count, const auto& means) {
    UpdateEight<kRule>(step, rate, at, count, model, means);
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
    UpdateEight<kRule>(step, rate, place, count, model, [&] { return Load(means + place, count); });
  });
}

// get.operator()<kRule>() of a step's rule, get.operator()<kBits>() of a number of bits.
template <typename Get>
auto OfRule(Rule rule, const Get& get) {
  switch (rule) {
    case Rule::kMomentum:
      return get.template operator()<Rule::kMomentum>();
    case Rule::kNesterov:
      return get.template operator()<Rule::kNesterov>();
    case Rule::kLars:
      return get.template operator()<Rule::kLars>();
    case Rule::kAdam:
      return get.template operator()<Rule::kAdam>();
    case Rule::kSgd:
      break;
  }
  return get.template operator()<Rule::kSgd>();
}
template <typename Get>
auto OfBits(uint32_t bits, const Get& get) {
  switch (bits) {
    case 2:
      return get.template operator()<2>();
    case 3:
      return get.template operator()<3>();
    case 4:
      return get.template operator()<4>();
    case 5:
      return get.template operator()<5>();
    default:
      return get.template operator()<kAnyBits>();
  }
}

uint32_t PlanesOf(uint32_t contributors) {
  return static_cast<uint32_t>(SumBits(static_cast<int>(contributors)));
}

}  // namespace

int DecodeAndUpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* sums,
                            const SumPlace* places, uint32_t contributors, const UpdateStep& step,
                            const TensorRates* rates, const ModelArenas& model, uint32_t* bad) {
  const Coded coded{sums, places, contributors, PlanesOf(contributors), bad};
  const auto kernel = OfBits(coded.bits, [&]<uint32_t kBits>() {
    return OfRule(step.rule, [&]<Rule kRule>() { return DecodeAndUpdateTiles<kRule, kBits>; });
  });
  return Launch(kernel, tiling.tile_count, kThreads, stream, tiling, coded, step, rates, model);
}

int DecodeOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* sums,
                   const SumPlace* places, uint32_t contributors, float* means, uint32_t* bad) {
  const Coded coded{sums, places, contributors, PlanesOf(contributors), bad};
  const auto kernel = OfBits(coded.bits, [&]<uint32_t kBits>() { return DecodeTiles<kBits>; });
  return Launch(kernel, tiling.tile_count, kThreads, stream, tiling, coded, means);
}

int UpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const float* means,
                   const UpdateStep& step, const TensorRates* rates, const ModelArenas& model) {
  const auto kernel = OfRule(step.rule, [&]<Rule kRule>() { return UpdateTiles<kRule>; });
  return Launch(kernel, tiling.tile_count, kThreads, stream, tiling, means, step, rates, model);
}

}  // namespace tern::kernels
