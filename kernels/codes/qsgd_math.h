// QSGD (Alistarh et al. 2017), with the same arithmetic on CPU and GPU. A bucket is a run of
// neighbouring elements with a common norm |v|; each element becomes a sign and a level, from 0 for
// the value 0 to s for the norm (or, with QsgdRule::uses_intervals, the number of an end of an
// interval). common/codec/qsgd_levels.h defines the levels, and common/codec/qsgd_form.h the bytes.
// The width of a bucket is the number of bits per element.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/codes/half_math.h"
#include "kernels/codes/philox_math.h"
#include "kernels/device/host_device.h"

namespace tern::kernels {

constexpr int kQsgdMaxBits = 24;  // the most bits of a level with its sign
// The largest number of levels s.
constexpr double kQsgdMostLevels = (1 << (kQsgdMaxBits - 1)) - 1;
// If widths differ, a code stores the bit at which the levels of every 64th bucket, and of the last
// bucket, end.
constexpr uint64_t kQsgdStride = 64;
constexpr double kLargestFloat = 0x1.fffffep127;

// How buckets are encoded.
struct QsgdRule {
  bool uses_two_norm = false;  // true: the norm is the 2-norm; false: it is the largest magnitude
  // False: an element is coded as a sign and a level. True: [-norm, norm] is cut into s intervals,
  // and an element is coded as the number of one of the ends of its interval.
  bool uses_intervals = false;
  int bits = 4;            // bits per element; 0: as many as each bucket needs
  double levels = 7;       // the number of levels s; 0: s depends on the bucket, see per_element
  double per_element = 0;  // if levels is 0, s = sqrt(per_element n) / 2 for a bucket of n elements
};

// The parameters of one bucket.
struct QsgdBucket {
  float norm = 0;
  int width = 0;  // bits per element
  double s = 1;   // number of levels
};

// The number of levels s of a bucket of n elements.
TERN_HOST_DEVICE double QsgdLevelCount(const QsgdRule& rule, uint64_t n) {
  if (rule.levels > 0) return rule.levels;
  const double s = sqrt(rule.per_element * static_cast<double>(n)) / 2;
  return s < kQsgdMostLevels ? s : kQsgdMostLevels;
}

// How many bits a number in [-c, c] takes: ceil(log2(2 c + 1)), for c = ceil(max_level).
TERN_HOST_DEVICE int QsgdBitsFor(double max_level) {
  const auto largest = 2 * static_cast<uint64_t>(ceil(max_level));
  int bits = 0;
  while (largest >> bits != 0) ++bits;
  return bits;
}

// The largest width of a bucket of n elements.
TERN_HOST_DEVICE int QsgdMaxWidth(const QsgdRule& rule, uint64_t n) {
  return rule.bits > 0 ? rule.bits : QsgdBitsFor(QsgdLevelCount(rule, n));
}

// The parameters of a bucket of n elements, from their largest magnitude and the sum of their
// squares.
TERN_HOST_DEVICE QsgdBucket MeasuredQsgdBucket(const QsgdRule& rule, float max_abs,
                                               double sum_squares, uint64_t n) {
  QsgdBucket bucket{max_abs, rule.bits, QsgdLevelCount(rule, n)};
  if (rule.uses_two_norm) {
    // The rounded norm is never less than the largest magnitude, because the magnitude is a float.
    const double norm = sqrt(sum_squares);
    bucket.norm = static_cast<float>(norm < kLargestFloat ? norm : kLargestFloat);
  }
  if (rule.bits > 0) return bucket;
  const float largest_ratio = bucket.norm > 0 ? max_abs / bucket.norm : 0;
  bucket.width = QsgdBitsFor(bucket.s * double{largest_ratio});
  return bucket;
}

// Whether a bucket of n elements may have this norm and width.
TERN_HOST_DEVICE bool IsValidQsgdBucket(const QsgdRule& rule, float norm, int width, uint64_t n) {
  if (!(norm < INFINITY) || BitsOf(norm) >> 31 != 0) return false;
  if (rule.bits > 0) return true;
  return norm > 0 ? width >= 2 && width <= QsgdMaxWidth(rule, n) : width == 0;
}

// The number of buckets of `count` elements in buckets of `bucket_size`, both at least 1.
TERN_HOST_DEVICE uint64_t QsgdBuckets(uint64_t count, uint64_t bucket_size) {
  return count / bucket_size + (count % bucket_size != 0 ? 1 : 0);
}
// The bytes of a code before its levels.
TERN_HOST_DEVICE uint64_t QsgdHeaderSize(const QsgdRule& rule, uint64_t num_buckets) {
  const uint64_t norm_bytes = num_buckets * sizeof(float);
  if (rule.bits > 0) return norm_bytes;
  return norm_bytes + num_buckets +
         (num_buckets + kQsgdStride - 1) / kQsgdStride * sizeof(uint64_t);
}
// The most bits of the levels of `count` elements together.
TERN_HOST_DEVICE uint64_t QsgdMaxBits(const QsgdRule& rule, uint64_t count, uint64_t bucket_size) {
  const uint64_t last_size = count % bucket_size;
  return (count - last_size) * static_cast<uint64_t>(QsgdMaxWidth(rule, bucket_size)) +
         last_size * static_cast<uint64_t>(QsgdMaxWidth(rule, last_size));
}
// The most bytes of the code of `count` elements.
TERN_HOST_DEVICE uint64_t QsgdMaxSize(const QsgdRule& rule, uint64_t count, uint64_t bucket_size) {
  return QsgdHeaderSize(rule, QsgdBuckets(count, bucket_size)) +
         (QsgdMaxBits(rule, count, bucket_size) + 7) / 8;
}

// Returns true with probability p in [0, 1). The decision takes 32 random bits: `draw` is the upper
// half; low_draw() returns the lower half, and is only called if the upper half does not decide.
template <typename LowDraw>
TERN_HOST_DEVICE bool QsgdFires(double p, uint32_t draw, const LowDraw& low_draw) {
  const auto threshold = static_cast<uint32_t>(p * 0x1p32);
  const uint32_t upper_threshold = threshold >> 16;
  if (draw != upper_threshold) return draw < upper_threshold;
  return low_draw() < (threshold & 0xFFFF);
}

// Chooses at random, and returns, the level of v or, if `uses_intervals`, the number of an end of
// the interval that contains v. `draw` and low_draw() are as in QsgdFires. REQUIRES a norm above 0.
template <typename LowDraw>
TERN_HOST_DEVICE uint32_t QsgdLevel(bool uses_intervals, float v, const QsgdBucket& bucket,
                                    uint32_t draw, const LowDraw& low_draw) {
  const double x = uses_intervals ? (double{v / bucket.norm} + 1) * (bucket.s / 2)
                                  : double{fabsf(v) / bucket.norm} * bucket.s;
  const auto lower_level = static_cast<uint32_t>(x);
  return lower_level + uint32_t{QsgdFires(x - lower_level, draw, low_draw)};
}

// QuickLevel below computes the result of QsgdLevel faster: without a division, a double or the
// lower half of the 32 random bits. In rare cases it cannot. With the x of QsgdLevel and u = (the
// 32 random bits + 1) / 2^32 the level is floor(x - u) + 1, and u lies in
// (draw16 / 2^16, (draw16 + 1) / 2^16], where draw16 is the upper half. |v| * scale + shift (for
// intervals: v * scale + shift) differs from x by at most s 2^-22, because of four roundings of
// values up to s (for intervals: seven roundings of values up to s / 2). `error` is a bound for all
// roundings.
struct QsgdQuick {
  float scale = NAN, shift = 0, error = 0;
};

// The constants of QuickLevel for a bucket. If s / norm, or a product with it, might overflow, they
// make QuickLevel always return false.
TERN_HOST_DEVICE QsgdQuick QsgdQuickOf(bool uses_intervals, const QsgdBucket& bucket) {
  if (!(bucket.norm > 0x1p-100f && bucket.norm < 0x1p100f)) return {};
  const auto s = static_cast<float>(bucket.s);
  const float error = (s + 1) * 0x1p-21f;
  const float max_y = uses_intervals ? s / 2 : s;
  return {max_y / bucket.norm, uses_intervals ? max_y : 0, error};
}

// Sets *level to what QsgdLevel returns, or returns false if the result is not certain. `x` is the
// element v for intervals, and |v| otherwise. `draw16` is the upper half of the random bits.
TERN_HOST_DEVICE bool QuickLevel(const QsgdQuick& quick, float x, uint32_t draw16,
                                 uint32_t* level) {
  const float min_u = static_cast<float>(draw16) * 0x1p-16f;
  const float y = x * quick.scale + quick.shift;
  const float lower_level = floorf(y - (min_u + 0x1p-16f) - quick.error);
  if (!(y - min_u + quick.error < lower_level + 1)) return false;
  *level = static_cast<uint32_t>(static_cast<int32_t>(lower_level) + 1);
  return true;
}

// Decodes a code of sign and level to a signed level. `sign_bit` is the number with only the sign
// bit set, and `max_level` is the largest valid level. Sets *is_valid to false if the code is
// invalid.
TERN_HOST_DEVICE int32_t SignedQsgdLevel(uint32_t code, uint32_t sign_bit, uint32_t max_level,
                                         bool* is_valid) {
  const uint32_t level = code & (sign_bit - 1);
  *is_valid = *is_valid & (code != sign_bit) &
              (level <= max_level);  // A negative sign with level 0 is invalid.
  return (code & sign_bit) != 0 ? -static_cast<int32_t>(level) : static_cast<int32_t>(level);
}

// The value of a signed level, where `unit` is the bucket's norm / s. Clamped to finite floats,
// because the highest level is above the norm if s is not an integer.
TERN_HOST_DEVICE float QsgdValue(int32_t signed_level, double unit) {
  double value = signed_level * unit;
  value = value < -kLargestFloat ? -kLargestFloat : value;
  return static_cast<float>(value > kLargestFloat ? kLargestFloat : value);
}

}  // namespace tern::kernels
