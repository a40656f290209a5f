// The levels of QSGD (Alistarh et al. 2017), bucket by bucket. A bucket is a run of n neighbouring
// elements v of one tensor, with their norm |v| (the largest magnitude, or the 2-norm) and s levels
// between 0 and the norm. With x = s |v_i| / |v|, l = floor(x) and p = x - l, element v_i becomes
//
//   Q(v_i) = sgn(v_i) (|v| / s) (l + 1)    with probability p
//   Q(v_i) = sgn(v_i) (|v| / s) l          otherwise
//
// so that the expectation of Q(v_i) is v_i, and its variance (|v| / s)^2 p (1 - p). A code has b
// bits, in one of two layouts:
//
//   sign       The lowest b - 1 bits are the level; the highest bit is the sign (1: negative;
//              always 0 for level 0). If exchange.qsgd.levels is `by_bits`, s = 2^(b-1) - 1.
//   intervals  [-|v|, |v|] is divided into m = 2^b - 1 equal intervals, and v_i becomes an end of
//              its interval, at random with expectation v_i. Code k stands for the end
//              |v| (2 k - m) / m. If |v| = 0, every code is 0 and every value 0.
//
// If exchange.qsgd.levels is not `by_bits`, let L = s max|v_i| / |v| be the largest x of a bucket.
// Then each element of the bucket has
//
//   b = ceil(log2(2 ceil(L) + 1))
//
// bits, or no bits if the norm is 0 (docs/ALGORITHMS.md, section 14).
//
// |v_i| / |v| is a float, by IEEE division; x is computed in double. The event of probability p
// happens if the element's 32 random bits are less than floor(p * 2^32) (kernels/codes/philox.h).
// With s = 1 and the largest magnitude as the norm, Q is TernGrad's rule, bit for bit.
#pragma once

#include <cstdint>
#include <span>

#include "common/codec/bit_pack.h"
#include "common/codec/codec.h"
#include "kernels/codes/philox.h"
#include "kernels/codes/qsgd_math.h"

namespace tern::codec {

// Encodes and decodes the elements of buckets, for one setting of the options.
class QsgdLevels {
 public:
  using Bucket = kernels::QsgdBucket;

  // REQUIRES options that pass CheckQsgd.
  explicit QsgdLevels(const Options::Qsgd& options);

  const kernels::QsgdRule& rule() const { return rule_; }
  // The largest width (bits per element) of a bucket of n elements.
  int MaxWidth(uint64_t n) const { return kernels::QsgdMaxWidth(rule_, n); }
  // The number of levels s for a bucket of n elements.
  double LevelCount(uint64_t n) const { return kernels::QsgdLevelCount(rule_, n); }
  // Computes norm, width and s of the bucket v. REQUIRES finite values.
  Bucket Measure(std::span<const float> v) const;
  // kMismatch if a bucket of n elements cannot have this norm and width.
  Status Check(float norm, int width, uint64_t n) const;

  // Sets codes[i] to the code of v[i], which is element first + i of its tensor. `noise` is the key
  // of the random numbers.
  void Encode(std::span<const float> v, const Bucket& bucket, const kernels::NoiseKey& noise,
              uint64_t first, std::span<uint32_t> codes) const;
  // Sets values[i] to the value, always finite, of codes[i]. Returns false if a code is invalid.
  bool Decode(std::span<const uint32_t> codes, const Bucket& bucket, std::span<float> values) const;
  // Whether Decode would accept the codes.
  bool AreValid(const PackedNumbers& codes, const Bucket& bucket) const;

 private:
  kernels::QsgdRule rule_;
};

// kBadJob, with the name of the option, if an option is outside its range.
Status CheckQsgd(const Options::Qsgd& options);

}  // namespace tern::codec
