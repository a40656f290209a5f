// Tests of the levels of QSGD's buckets on a CPU (qsgd.h): the vector code gives the codes and
// values of the scalar code.
#include "kernels/codes/qsgd.h"

#include <algorithm>
#include <cmath>

#include "kernels/codes/stats.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class QsgdOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(QsgdOnTarget);

const NoiseKey kKey{.seed = 2017, .rank = 5, .round = 3, .tensor = 2};

// The bucket of v, with codes of `bits` bits.
QsgdBucket BucketOf(const std::vector<float>& v, bool uses_intervals, int bits) {
  const int levels = (1 << (uses_intervals ? bits : bits - 1)) - 1;
  return {MaxAbsRef(v.data(), v.size()), bits, static_cast<double>(levels)};
}

// Expects the codes and values of the scalar code, and nothing written beyond them.
void ExpectSame(const std::vector<float>& v, bool uses_intervals, const QsgdBucket& bucket,
                uint64_t first) {
  const size_t n = v.size();
  std::vector<uint32_t> codes(n + 1, 77), reference_codes(n + 1, 77);
  EncodeQsgd(v.data(), n, uses_intervals, bucket, kKey, first, codes.data());
  EncodeQsgdRef(v.data(), n, uses_intervals, bucket, kKey, first, reference_codes.data());
  ASSERT_EQ(codes, reference_codes);
  std::vector<float> values(n + 1, 77), reference_values(n + 1, 77);
  ASSERT_TRUE(DecodeQsgd(codes.data(), n, uses_intervals, bucket, values.data()));
  ASSERT_TRUE(DecodeQsgdRef(codes.data(), n, uses_intervals, bucket, reference_values.data()));
  ASSERT_EQ(values, reference_values);
}

TEST_P(QsgdOnTarget, EqualsTheReferenceAtEveryLengthAndPlace) {
  for (const size_t n : Lengths()) {
    std::vector<float> v = Gaussian(n, n);
    for (size_t i = 0; i < n; i += 7) v[i] = i % 2 == 0 ? 0.0f : -0.0f;
    for (const bool uses_intervals : {false, true}) {
      for (const int bits : {2, 3, 4, 5, 8, 10, 11, 16}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, n " << n);
        ExpectSame(v, uses_intervals, BucketOf(v, uses_intervals, bits), n % 13);
      }
    }
  }
}

TEST_P(QsgdOnTarget, EqualsTheReferenceWithAnyNormAndNumberOfLevels) {
  for (const float norm : {1e-44f, 1e-40f, 1e-31f, 0.5f, 3.3e38f}) {
    std::vector<float> v = Gaussian(1003, 9);
    const float largest = MaxAbsRef(v.data(), v.size());
    for (float& x : v) x = std::clamp(x / largest, -1.0f, 1.0f) * norm;
    for (const double s : {0.5, 1.0, 2.5, 31.6, 8388607.0}) {
      SCOPED_TRACE(testing::Message() << "norm " << norm << ", s " << s);
      ExpectSame(v, false, {norm, QsgdBitsFor(s), s}, 5);
    }
  }
}

// Values whose level depends on the last of their 32 random bits.
TEST_P(QsgdOnTarget, TheDrawDecidesToItsLastBits) {
  for (const bool is_rounded_up : {false, true}) {
    std::vector<float> v(4000);
    for (size_t i = 0; i < v.size(); ++i) {
      const double draw = Draw32(kKey, i);
      v[i] = static_cast<float>((draw + 1) * 0x1p-32);
      if (double{v[i]} * 0x1p32 < draw + 1) v[i] = std::nextafter(v[i], 1.0f);
      if (!is_rounded_up) v[i] = std::nextafter(v[i], 0.0f);
    }
    ExpectSame(v, false, {1, 2, 1}, 0);
  }
}

TEST_P(QsgdOnTarget, ABucketOfZerosHasTheCodeZero) {
  ExpectSame(std::vector<float>(77), false, {0, 4, 7}, 3);
  std::vector<uint32_t> codes(77);
  std::vector<float> values(77);
  codes[70] = 1;
  EXPECT_FALSE(DecodeQsgd(codes.data(), codes.size(), false, {0, 4, 7}, values.data()));
}

TEST_P(QsgdOnTarget, RefusesAnInvalidCodeAtEveryPlace) {
  for (const uint32_t invalid : {8u, 6u, 14u}) {  // a negative 0, and levels above 5
    for (size_t i = 0; i < 70; ++i) {
      std::vector<uint32_t> codes(70, 13);
      std::vector<float> values(70);
      const QsgdBucket bucket{1, 4, 4.5};
      ASSERT_TRUE(DecodeQsgd(codes.data(), 70, false, bucket, values.data()));
      codes[i] = invalid;
      ASSERT_FALSE(DecodeQsgd(codes.data(), 70, false, bucket, values.data())) << i;
      ASSERT_FALSE(DecodeQsgdRef(codes.data(), 70, false, bucket, values.data())) << i;
    }
  }
}

TEST_P(QsgdOnTarget, MaxAbsEqualsTheReference) {
  for (const size_t n : Lengths()) {
    const std::vector<float> v = Gaussian(n, n);
    ASSERT_EQ(MaxAbs(v.data(), n), MaxAbsRef(v.data(), n)) << n;
  }
}

}  // namespace
}  // namespace tern::kernels
