// QSGD (common/codec/qsgd_levels.h, qsgd_form.h), with the same arithmetic on CPU and GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/codes/half_math.h"
#include "kernels/codes/philox_math.h"
#include "kernels/device/host_device.h"

namespace tern::kernels {

constexpr int kQsgdMaxBits = 24;  // of a level with its sign
constexpr double kQsgdMostLevels = (1 << (kQsgdMaxBits - 1)) - 1;
constexpr uint64_t kQsgdStride = 64;  // a code stores the end of every 64th bucket
constexpr double kLargestFloat = 0x1.fffffep127;

struct QsgdRule {
  bool two_norm = false;   // true: the 2-norm; false: the largest magnitude
  bool intervals = false;  // the layout of a level: an interval's number, or (false) sign and level
  int bits = 4;            // per element; 0: as many as its bucket needs
  double levels = 7;       // s; 0: sqrt(per_element n) / 2 for a bucket of n elements
  double per_element = 0;
};

// The parameters of one bucket.
struct QsgdBucket {
  float norm = 0;
  int width = 0;  // bits per element
  double s = 1;
};

TERN_HOST_DEVICE double QsgdLevelCount(const QsgdRule& rule, uint64_t n) {
  if (rule.levels > 0) return rule.levels;
  const double s = sqrt(rule.per_element * static_cast<double>(n)) / 2;
  return s < kQsgdMostLevels ? s : kQsgdMostLevels;
}

// The bits of one level with its sign: ceil(log2(2 c + 1)) for c = ceil(levels).
TERN_HOST_DEVICE int QsgdBitsFor(double levels) {
  const auto values = 2 * static_cast<uint64_t>(ceil(levels));
  int bits = 0;
  while (values >> bits != 0) ++bits;
  return bits;
}

// The largest width of a bucket of n elements.
TERN_HOST_DEVICE int QsgdMaxWidth(const QsgdRule& rule, uint64_t n) {
  return rule.bits > 0 ? rule.bits : QsgdBitsFor(QsgdLevelCount(rule, n));
}

TERN_HOST_DEVICE QsgdBucket QsgdMeasured(const QsgdRule& rule, float max_abs, double sum_squares,
                                         uint64_t n) {
  QsgdBucket bucket{max_abs, rule.bits, QsgdLevelCount(rule, n)};
  if (rule.two_norm) {
    // Rounding cannot make it less than the largest magnitude, which is itself a float.
    const double norm = sqrt(sum_squares);
    bucket.norm = static_cast<float>(norm < kLargestFloat ? norm : kLargestFloat);
  }
  if (rule.bits > 0) return bucket;
  const float largest = bucket.norm > 0 ? max_abs / bucket.norm : 0;
  bucket.width = QsgdBitsFor(bucket.s * double{largest});
  return bucket;
}

// Whether a bucket of n elements may have this norm and width.
TERN_HOST_DEVICE bool IsValidQsgdBucket(const QsgdRule& rule, float norm, int width, uint64_t n) {
  if (!(norm < INFINITY) || BitsOf(norm) >> 31 != 0) return false;
  if (rule.bits > 0) return true;
  return norm > 0 ? width >= 2 && width <= QsgdMaxWidth(rule, n) : width == 0;
}

// Of `count` elements in buckets of `size` elements, both at least 1: the number of buckets and,
// below, sizes of their code.
TERN_HOST_DEVICE uint64_t QsgdBuckets(uint64_t count, uint64_t size) {
  return count / size + (count % size != 0 ? 1 : 0);
}
TERN_HOST_DEVICE uint64_t QsgdHeaderSize(const QsgdRule& rule, uint64_t buckets) {
  const uint64_t norms = buckets * sizeof(float);
  if (rule.bits > 0) return norms;
  return norms + buckets + (buckets + kQsgdStride - 1) / kQsgdStride * sizeof(uint64_t);
}
// Upper bound of the bits of all levels together.
TERN_HOST_DEVICE uint64_t QsgdMaxBits(const QsgdRule& rule, uint64_t count, uint64_t size) {
  const uint64_t last = count % size;
  return (count - last) * static_cast<uint64_t>(QsgdMaxWidth(rule, size)) +
         last * static_cast<uint64_t>(QsgdMaxWidth(rule, last));
}
TERN_HOST_DEVICE uint64_t QsgdMaxSize(const QsgdRule& rule, uint64_t count, uint64_t size) {
  return QsgdHeaderSize(rule, QsgdBuckets(count, size)) + (QsgdMaxBits(rule, count, size) + 7) / 8;
}

// Returns true with probability p in [0, 1). `draw` is the element's 16-bit draw of level 0;
// finer() returns its draw of level 1 (philox.h).
template <typename Finer>
TERN_HOST_DEVICE bool QsgdFires(double p, uint32_t draw, const Finer& finer) {
  const auto threshold = static_cast<uint32_t>(p * 0x1p32);
  const uint32_t high = threshold >> 16;
  if (draw != high) return draw < high;
  return finer() < (threshold & 0xFFFF);
}

// The level (layout sign) or the interval's end (layout intervals) of v. REQUIRES a norm above 0.
template <typename Finer>
TERN_HOST_DEVICE uint32_t QsgdLevel(bool intervals, float v, const QsgdBucket& bucket,
                                    uint32_t draw, const Finer& finer) {
  const double x = intervals ? (double{v / bucket.norm} + 1) * (bucket.s / 2)
                             : double{fabsf(v) / bucket.norm} * bucket.s;
  const auto below = static_cast<uint32_t>(x);
  return below + uint32_t{QsgdFires(x - below, draw, finer)};
}

// QuickLevel computes the same without a division, a double or the draw of level 1, and returns
// whether the result is certain; it nearly always is. With u = (draw32 + 1) / 2^32 the level is
// floor(x - u) + 1, and u lies in (draw16 / 2^16, (draw16 + 1) / 2^16]. |v| * scale + shift is
// within s 2^-22 of x (four roundings of values up to s, seven of values up to s / 2 in intervals);
// `error` covers the remaining roundings.
struct QsgdQuick {
  float scale = NAN, shift = 0, error = 0;
};

// For norms with which s / norm, or a product with it, may overflow, no result is certain.
TERN_HOST_DEVICE QsgdQuick QuicklyOf(bool intervals, const QsgdBucket& bucket) {
  if (!(bucket.norm > 0x1p-100f && bucket.norm < 0x1p100f)) return {};
  const auto s = static_cast<float>(bucket.s);
  const float error = (s + 1) * 0x1p-21f;
  const float most = intervals ? s / 2 : s;
  return {most / bucket.norm, intervals ? most : 0, error};
}

// `x` is v for intervals, |v| otherwise. Returns false if the result is not certain.
TERN_HOST_DEVICE bool QuickLevel(const QsgdQuick& quick, float x, uint32_t draw16,
                                 uint32_t* level) {
  const float least_u = static_cast<float>(draw16) * 0x1p-16f;
  const float y = x * quick.scale + quick.shift;
  const float below = floorf(y - (least_u + 0x1p-16f) - quick.error);
  if (!(y - least_u + quick.error < below + 1)) return false;
  *level = static_cast<uint32_t>(static_cast<int32_t>(below) + 1);
  return true;
}

// Decodes a level with a sign bit; clears *good if it is not a valid code.
TERN_HOST_DEVICE int32_t QsgdSigned(uint32_t code, uint32_t minus, uint32_t last, bool* good) {
  const uint32_t level = code & (minus - 1);
  *good = *good & (code != minus) & (level <= last);  // -0 is invalid
  return (code & minus) != 0 ? -static_cast<int32_t>(level) : static_cast<int32_t>(level);
}

// The value of code c; `unit` is the bucket's norm / s. If s is not an integer, the last level is
// above the norm.
TERN_HOST_DEVICE float QsgdValue(int32_t c, double unit) {
  double value = c * unit;
  value = value < -kLargestFloat ? -kLargestFloat : value;
  return static_cast<float>(value > kLargestFloat ? kLargestFloat : value);
}

}  // namespace tern::kernels
