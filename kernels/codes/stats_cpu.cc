// The statistics of stats.h, vectorized, compiled once for each instruction set by Highway.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/codes/stats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/stats_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

Stats ComputeStats(const float* x, size_t n) { return ComputeStatsRef(x, n); }
float MaxAbs(const float* x, size_t n) { return MaxAbsRef(x, n); }

#else

constexpr size_t kBlock = 4096;
constexpr size_t kLanes = 128;
constexpr size_t kPrefetchElements = kBlock;  // how far ahead elements are prefetched
constexpr int32_t kInfinityBits = 0x7F800000;

// The sums of the elements of a block, or of the blocks, by lane (stats.h).
struct BlockSums {
  alignas(64) double sum[kLanes];
  alignas(64) double squares[kLanes];
};

// Adds the lanes in the order of stats.h.
double FoldLanes(double* lanes) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// A block is an array of rows of 128 elements, one per lane. Adds a strip of the block: the
// elements of four vectors of lanes, from x on, in all rows; the sums of four vectors fit in the
// registers of every target. Returns the largest magnitude, as the integer that has the bits of the
// float; such integers are ordered like the magnitudes. If a value is not finite, the result is at
// least that of infinity. Prefetches as many floats from `next` on as it reads, because the rows of
// a strip are too far apart for a hardware prefetcher.
int32_t AddStrip(const float* x, const float* next, size_t rows, double* sum, double* squares) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::Rebind<int32_t, decltype(d)> di;
  const size_t num_lanes = hn::Lanes(d);
  const auto magnitude_mask = hn::Set(di, 0x7FFFFFFF);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  auto squares0 = sum0, squares1 = sum0, squares2 = sum0, squares3 = sum0;
  auto max0 = hn::Zero(di), max1 = max0;
  const auto add = [&](const float* p, auto& s, auto& q, auto& m) HWY_ATTR {
    const auto floats = hn::LoadU(df, p);
    const auto doubles = hn::PromoteTo(d, floats);
    s = hn::Add(s, doubles);
    q = hn::MulAdd(doubles, doubles,
                   q);  // The square is exact in double, so fusing does not round differently.
    m = hn::Max(m, hn::And(hn::BitCast(di, floats), magnitude_mask));
  };
  for (size_t row = 0; row < rows; ++row, x += kLanes) {
    add(x, sum0, squares0, max0);
    add(x + num_lanes, sum1, squares1, max1);
    add(x + 2 * num_lanes, sum2, squares2, max0);
    add(x + 3 * num_lanes, sum3, squares3, max1);
    for (size_t line = 0; line < 4 * num_lanes; line += 16) hwy::Prefetch(next + line);
    next += 4 * num_lanes;
  }
  hn::Store(sum0, d, sum);
  hn::Store(sum1, d, sum + num_lanes);
  hn::Store(sum2, d, sum + 2 * num_lanes);
  hn::Store(sum3, d, sum + 3 * num_lanes);
  hn::Store(squares0, d, squares);
  hn::Store(squares1, d, squares + num_lanes);
  hn::Store(squares2, d, squares + 2 * num_lanes);
  hn::Store(squares3, d, squares + 3 * num_lanes);
  return hn::GetLane(hn::MaxOfLanes(di, hn::Max(max0, max1)));
}

// Adds the sums of block number `block`, which has `rows` rows from x on, to the lane of lane_sums
// to which the block belongs. Raises *max_abs_bits to the bits of the block's largest magnitude.
void AddBlock(const float* x, size_t rows, size_t block, BlockSums* lane_sums,
              int32_t* max_abs_bits) {
  const size_t strip_lanes = 4 * hn::Lanes(hn::CappedTag<double, 8>());
  BlockSums sums;
  for (size_t lane = 0; lane < kLanes; lane += strip_lanes) {
    const int32_t bits = AddStrip(x + lane, x + kPrefetchElements + rows * lane, rows,
                                  sums.sum + lane, sums.squares + lane);
    if (bits > *max_abs_bits) *max_abs_bits = bits;
  }
  lane_sums->sum[block % kLanes] += FoldLanes(sums.sum);
  lane_sums->squares[block % kLanes] += FoldLanes(sums.squares);
}

Stats ComputeStats(const float* x, size_t n) {
  Stats stats;
  stats.count = n;
  BlockSums lane_sums = {};
  int32_t max_abs_bits = 0;
  size_t begin = 0;
  for (; n - begin >= kBlock; begin += kBlock) {
    AddBlock(x + begin, kBlock / kLanes, begin / kBlock, &lane_sums, &max_abs_bits);
  }
  if (begin < n) {
    alignas(64) float last_block[kBlock];
    const size_t count = n - begin;
    const size_t rows = (count + kLanes - 1) / kLanes;
    std::memcpy(last_block, x + begin, count * sizeof(float));
    std::memset(last_block + count, 0, (rows * kLanes - count) * sizeof(float));
    AddBlock(last_block, rows, begin / kBlock, &lane_sums, &max_abs_bits);
  }
  stats.sum = FoldLanes(lane_sums.sum);
  stats.sum_squares = FoldLanes(lane_sums.squares);
  stats.is_finite = max_abs_bits < kInfinityBits;
  std::memcpy(&stats.max_abs, &max_abs_bits, sizeof(float));
  return stats;
}

float MaxAbs(const float* x, size_t n) {
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  auto max0 = hn::Zero(d), max1 = max0;
  size_t i = 0;
  for (; n - i >= 2 * lanes; i += 2 * lanes) {
    max0 = hn::Max(max0, hn::Abs(hn::LoadU(d, x + i)));
    max1 = hn::Max(max1, hn::Abs(hn::LoadU(d, x + i + lanes)));
  }
  const float max_abs = hn::GetLane(hn::MaxOfLanes(d, hn::Max(max0, max1)));
  return std::max(max_abs, MaxAbsRef(x + i, n - i));
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(ComputeStats);
Stats ComputeStats(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(ComputeStats)(x, n); }
HWY_EXPORT(MaxAbs);
float MaxAbs(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(MaxAbs)(x, n); }

}  // namespace tern::kernels
#endif
