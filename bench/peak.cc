// Measures the peak rate of this machine's cores with independent chains of fused multiply-adds.
// Prints floating-point operations per second.
//
//   peak THREADS
#include <omp.h>

#include <cstdio>
#include <cstdlib>

#include "common/base/clock.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The number of independent chains must be at least the latency of a multiply-add in cycles times
// the multiply-adds that a core starts per cycle.
constexpr size_t kChains = 12;
constexpr size_t kIterations = 20'000'000;

// Computes the chains and returns the number of floating-point operations. Adds one element of each
// chain to *sum, so that the compiler does not omit the operations.
double MultiplyAndAdd(float* sum) {
  const hn::ScalableTag<float> tag;
  hn::Vec<decltype(tag)> chains[kChains];
  for (auto& value : chains) value = hn::Set(tag, 1.f);
  const auto factor = hn::Set(tag, 0.999f), addend = hn::Set(tag, 0.001f);
  for (size_t i = 0; i < kIterations; ++i)
    for (auto& value : chains) value = hn::MulAdd(value, factor, addend);
  for (const auto& value : chains) *sum += hn::GetLane(value);
  return 2.0 * kChains * kIterations * static_cast<double>(hn::Lanes(tag));
}

}  // namespace tern::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::bench {

HWY_EXPORT(MultiplyAndAdd);

// Returns floating-point operations per second of all threads together.
double PeakRate(int threads) {
  double operations = 0;
  float chain_sum = 0;
  const Time begin = Now();
#pragma omp parallel num_threads(threads) reduction(+ : operations, chain_sum)
  operations += HWY_DYNAMIC_DISPATCH(MultiplyAndAdd)(&chain_sum);
  const double rate = operations / Seconds(Now() - begin);
  return chain_sum > 0 ? rate : 0;
}

}  // namespace tern::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "peak THREADS\n");
    return 64;
  }
  std::printf("%.6g\n", tern::bench::PeakRate(std::atoi(argv[1])));
  return 0;
}
#endif
