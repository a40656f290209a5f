// Measures the speed of the kernels on one core, in elements per second and in bytes per second.
// The bytes are those of the floats that a kernel reads or writes. BenchAddCodes handles no floats
// and counts 4 bytes per element.
//   kernels_bench --benchmark_filter=Ternarize
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "kernels/codes/half.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/rotate.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/update/optimizer.h"

namespace tern::kernels {
namespace {

std::vector<float> RandomGradient(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> gaussian;
  std::vector<float> g(n);
  for (float& value : g) value = gaussian(random);
  return g;
}

// The ternary codes of n Gaussian values.
struct TernaryCodes {
  explicit TernaryCodes(size_t n) : mask(PlaneBytes(n)), signs(PlaneBytes(n)) {
    const std::vector<float> g = RandomGradient(n);
    Ternarize(g.data(), n, 2.5f, 2.5f, NoiseKey(), 0, mask.data(), signs.data());
  }
  std::vector<uint8_t> mask;
  std::vector<uint8_t> signs;
};

size_t NumElements(const benchmark::State& state) { return static_cast<size_t>(state.range(0)); }

void SetRates(benchmark::State& state, size_t bytes_per_element) {
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * state.range(0) *
                          static_cast<int64_t>(bytes_per_element));
}

void BenchTernarize(benchmark::State& state) {
  const size_t n = NumElements(state);
  const std::vector<float> g = RandomGradient(n);
  TernaryCodes codes(n);
  NoiseKey noise_key;
  for (auto _ : state) {
    ++noise_key.round;
    benchmark::DoNotOptimize(
        Ternarize(g.data(), n, 2.5f, 2.5f, noise_key, 0, codes.mask.data(), codes.signs.data()));
  }
  SetRates(state, 4);
}

// Statistics and codes, as a worker computes them: of the values, or (block > 0) of rotated values.
void BenchPrepareAndTernarize(benchmark::State& state) {
  const std::vector<float> g = RandomGradient(NumElements(state));
  const auto block = static_cast<uint64_t>(state.range(1));
  std::vector<float> rotated(g.size());
  TernaryCodes codes(g.size());
  NoiseKey noise_key;
  for (auto _ : state) {
    ++noise_key.round;
    if (block > 0) Rotate(g.data(), 0, g.size(), {.seed = 1, .block = block}, rotated.data());
    const float* values = block > 0 ? rotated.data() : g.data();
    const auto clip = static_cast<float>(2.5 * Sigma(ComputeStats(values, g.size())));
    benchmark::DoNotOptimize(Ternarize(values, g.size(), clip, clip, noise_key, 0,
                                       codes.mask.data(), codes.signs.data()));
  }
  SetRates(state, 4);
}

void BenchRotate(benchmark::State& state) {
  const std::vector<float> g = RandomGradient(NumElements(state));
  const Rotation rotation{.seed = 1, .block = static_cast<uint64_t>(state.range(1))};
  std::vector<float> rotated(g.size());
  for (auto _ : state) {
    Rotate(g.data(), 0, g.size(), rotation, rotated.data());
    benchmark::ClobberMemory();
  }
  SetRates(state, 8);
}

void BenchTernarizeRef(benchmark::State& state) {
  const size_t n = NumElements(state);
  const std::vector<float> g = RandomGradient(n);
  TernaryCodes codes(n);
  for (auto _ : state) {
    benchmark::DoNotOptimize(TernarizeRef(g.data(), n, 2.5f, 2.5f, NoiseKey(), 0, codes.mask.data(),
                                          codes.signs.data()));
  }
  SetRates(state, 4);
}

void BenchStats(benchmark::State& state) {
  const std::vector<float> g = RandomGradient(NumElements(state));
  for (auto _ : state) benchmark::DoNotOptimize(ComputeStats(g.data(), g.size()));
  SetRates(state, 4);
}

void BenchAddCodes(benchmark::State& state) {
  const size_t n = NumElements(state);
  const int num_planes = SumBits(static_cast<int>(state.range(1)));
  const TernaryCodes codes(n);
  std::vector<uint8_t> planes(static_cast<size_t>(num_planes) * PlaneBytes(n));
  const WorkerCodes worker_codes{codes.mask.data(), codes.signs.data()};
  for (auto _ : state) {  // The sums overflow, which does not affect the time.
    AddCodes({&worker_codes, 1}, 2, n, PlaneBytes(n), num_planes, num_planes, planes.data());
    benchmark::ClobberMemory();
  }
  SetRates(state, 4);
}

void BenchDecodeMean(benchmark::State& state) {
  const size_t n = NumElements(state);
  const int workers = static_cast<int>(state.range(1));
  const int num_planes = SumBits(workers);
  const TernaryCodes codes(n);
  std::vector<uint8_t> planes(static_cast<size_t>(num_planes) * PlaneBytes(n));
  const WorkerCodes worker_codes{codes.mask.data(), codes.signs.data()};
  AddCodes({&worker_codes, 1}, 2, n, PlaneBytes(n), num_planes, num_planes, planes.data());
  std::vector<float> mean(n);
  for (auto _ : state) {
    benchmark::DoNotOptimize(DecodeMean(planes.data(), n, workers, 1.0f, 0, n, mean.data()));
    benchmark::ClobberMemory();
  }
  SetRates(state, 4);
}

void BenchHalf(benchmark::State& state) {
  std::vector<float> g = RandomGradient(NumElements(state));
  std::vector<uint16_t> half_values(g.size());
  for (auto _ : state) {
    FloatToHalf(g.data(), g.size(), half_values.data());
    HalfToFloat(half_values.data(), half_values.size(), g.data());
    benchmark::ClobberMemory();
  }
  SetRates(state, 8);
}

void BenchMomentum(benchmark::State& state) {
  const std::vector<float> g = RandomGradient(NumElements(state));
  std::vector<float> w = g;
  std::vector<float> v(g.size());
  for (auto _ : state) {
    MomentumUpdate(w.data(), v.data(), g.data(), g.size(), 0.01f, 0.9f, 5e-4f);
    benchmark::ClobberMemory();
  }
  SetRates(state, 20);
}

// Numbers of elements: of arrays that fit in the caches, and of arrays that do not.
constexpr int64_t kElementsInCache = 1 << 16;
constexpr int64_t kElementsInMemory = 1 << 24;

BENCHMARK(BenchTernarize)->Arg(kElementsInCache)->Arg(kElementsInMemory);
BENCHMARK(BenchPrepareAndTernarize)
    ->ArgsProduct({{kElementsInCache, kElementsInMemory}, {0, 64, 4096, 65536}});
BENCHMARK(BenchRotate)->ArgsProduct({{kElementsInCache, kElementsInMemory}, {64, 4096, 65536}});
BENCHMARK(BenchTernarizeRef)->Arg(kElementsInCache);
BENCHMARK(BenchStats)->Arg(kElementsInCache)->Arg(kElementsInMemory);
BENCHMARK(BenchAddCodes)->ArgsProduct({{kElementsInCache}, {2, 8, 64}});
BENCHMARK(BenchDecodeMean)->ArgsProduct({{kElementsInCache}, {2, 4, 8, 16, 64}});
BENCHMARK(BenchHalf)->Arg(kElementsInCache);
BENCHMARK(BenchMomentum)->Arg(kElementsInCache)->Arg(kElementsInMemory);

}  // namespace
}  // namespace tern::kernels

BENCHMARK_MAIN();
