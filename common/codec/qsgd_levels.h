// The levels of QSGD (Alistarh et al. 2017; eq. 1 of the low-precision study), bucket by bucket: n
// neighbouring elements v of one tensor, their norm |v| (the largest magnitude, or the 2-norm) and
// s levels between 0 and the norm. With x = s |v_i| / |v|, l = floor(x) and p = x - l:
//
//   Q(v_i) = sgn(v_i) |v| / s (l + 1)    with probability p
//   Q(v_i) = sgn(v_i) |v| / s l          otherwise
//
// so that E Q(v_i) = v_i, with variance (|v| / s)^2 p (1 - p). Layouts:
//
//   sign       the lowest b - 1 bits are the level, the highest is the sign (1: negative; level 0
//              has none). s = 2^(b-1) - 1 if the job gives the bits.
//   intervals  2^b - 1 equal intervals over [-|v|, |v|], whose ends are the levels: code k is
//              |v| (2 k - m) / m, m = 2^b - 1. There is no level 0 (if |v| = 0, every code is 0 and
//              every value 0).
//
// If the job gives s, the highest level that a bucket can reach is L = s max|v_i| / |v|, and its
// elements have
//
//   b = ceil(log2(2 ceil(L) + 1))
//
// bits, 0 for a norm of 0 (docs/ALGORITHMS.md, section 14: PQASGD's text is one level short).
//
// |v_i| / |v| is a float, by IEEE division; x is computed in double; the draw fires if
// draw32 < floor(p * 2^32) (kernels/codes/philox.h). At s = 1 that is TernGrad's rule, bit for bit.
#pragma once

#include <cstdint>
#include <span>

#include "common/codec/codec.h"
#include "kernels/codes/philox.h"
#include "kernels/codes/qsgd_math.h"

namespace tern::codec {

class QsgdLevels {
 public:
  using Bucket = kernels::QsgdBucket;

  // REQUIRES options that pass CheckQsgd.
  explicit QsgdLevels(const Options::Qsgd& options);

  const kernels::QsgdRule& rule() const { return rule_; }
  // The largest width of a bucket of n elements.
  int MaxWidth(uint64_t n) const { return kernels::QsgdMaxWidth(rule_, n); }
  // s for a bucket of n elements.
  double LevelCount(uint64_t n) const { return kernels::QsgdLevelCount(rule_, n); }
  // Norm and width of v. REQUIRES finite values.
  Bucket Measure(std::span<const float> v) const;
  // kMismatch if a bucket of n elements cannot have this norm and width.
  Status Check(float norm, int width, uint64_t n) const;

  // Writes codes[i] for v[i], which is element first + i of its tensor.
  void Encode(std::span<const float> v, const Bucket& bucket, const kernels::NoiseKey& noise,
              uint64_t first, std::span<uint32_t> codes) const;
  // Writes values[i] for codes[i], all finite. False if a code is invalid.
  bool Decode(std::span<const uint32_t> codes, const Bucket& bucket, std::span<float> values) const;

 private:
  kernels::QsgdRule rule_;
};

// kBadJob, with the key, for options outside their ranges.
Status CheckQsgd(const Options::Qsgd& options);

}  // namespace tern::codec
