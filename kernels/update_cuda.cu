// Sums to weights on a GPU, in one pass: a thread block a tile; a thread takes eight elements at a
// time, a byte of each plane.
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

template <Rule kRule>
__global__ void __launch_bounds__(kThreads)
    UpdateTiles(DeviceTiling tiling, const uint8_t* bytes, const SumPlace* places,
                uint32_t contributors, uint32_t bits, UpdateStep step, const TensorRates* rates,
                ModelArenas model, uint32_t* bad) {
  __shared__ float means[2 * kMostContributors + 1];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const SumPlace place = places[tile.part];
  const TensorRates rate = rates[tile.part];
  FillMeans(contributors, place.scaler, means);
  __syncthreads();
  const Sums sums{bytes + place.begin, (part.count + 7) / 8, bits, contributors, means};
  const uint64_t tile_begin = uint64_t{tile.index} * kTile;
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t at = tile_begin + first;
    if (at >= part.count) break;
    const uint64_t rest = part.count - at;
    const uint32_t count = rest < kEight ? static_cast<uint32_t>(rest) : kEight;
    Eight g, w = Load(model.weights + part.begin + at, count), m{}, v{};
    if constexpr (kRule != Rule::kSgd) m = Load(model.first + part.begin + at, count);
    if constexpr (kRule == Rule::kAdam) v = Load(model.second + part.begin + at, count);
    if (!DecodeEight(sums, at / kEight, count, &g)) atomicAdd(bad, 1u);
#pragma unroll
    for (uint32_t i = 0; i < kEight; ++i)
      UpdateElement<kRule>(step, rate, g.x[i], &w.x[i], &m.x[i], &v.x[i]);
    Store(w, model.weights + part.begin + at, count);
    if constexpr (kRule != Rule::kSgd) Store(m, model.first + part.begin + at, count);
    if constexpr (kRule == Rule::kAdam) Store(v, model.second + part.begin + at, count);
  }
}

auto KernelOf(Rule rule) {
  switch (rule) {
    case Rule::kMomentum:
      return UpdateTiles<Rule::kMomentum>;
    case Rule::kNesterov:
      return UpdateTiles<Rule::kNesterov>;
    case Rule::kLars:
      return UpdateTiles<Rule::kLars>;
    case Rule::kAdam:
      return UpdateTiles<Rule::kAdam>;
    case Rule::kSgd:
      break;
  }
  return UpdateTiles<Rule::kSgd>;
}

}  // namespace

int DecodeAndUpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* sums,
                            const SumPlace* places, uint32_t contributors, const UpdateStep& step,
                            const TensorRates* rates, const ModelArenas& model, uint32_t* bad) {
  const auto bits = static_cast<uint32_t>(SumBits(static_cast<int>(contributors)));
  return Launch(KernelOf(step.rule), tiling.tile_count, kThreads, stream, tiling, sums, places,
                contributors, bits, step, rates, model, bad);
}

}  // namespace tern::kernels
