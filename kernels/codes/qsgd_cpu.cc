// The levels of QSGD's buckets (qsgd.h), vectorized, compiled once for each instruction set by
// Highway.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/codes/qsgd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/qsgd_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/philox_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void EncodeQsgd(const float* v, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                const NoiseKey& key, uint64_t first, uint32_t* codes) {
  EncodeQsgdRef(v, n, uses_intervals, bucket, key, first, codes);
}

bool DecodeQsgd(const uint32_t* codes, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                float* values) {
  return DecodeQsgdRef(codes, n, uses_intervals, bucket, values);
}

#else

using DD = hn::Repartition<double, DF>;
using VD = hn::Vec<DD>;
using VI = hn::Vec<DI>;
using DHalfI = hn::Half<DI>;  // as many integers as DD has doubles

// The lower, and the upper half of a vector of floats or integers as doubles.
template <class V>
HWY_INLINE VD LowerDoubles(V v) {
  return hn::PromoteTo(DD(), hn::LowerHalf(hn::Half<hn::DFromV<V>>(), v));
}
template <class V>
HWY_INLINE VD UpperDoubles(V v) {
  return hn::PromoteTo(DD(), hn::UpperHalf(hn::Half<hn::DFromV<V>>(), v));
}

// Encodes the elements of one bucket. kIntervals: QsgdRule::uses_intervals. kQuick: by QuickLevel
// (qsgd_math.h), which leaves more elements to CodeOf the more levels there are.
template <bool kIntervals, bool kQuick>
class Encoder {
 public:
  Encoder(const QsgdBucket& bucket, const NoiseKey& key)
      : bucket_(bucket),
        quick_(QsgdQuickOf(kIntervals, bucket)),
        key_(key),
        philox_(key),
        sign_bit_(kIntervals ? 0 : int32_t{1} << (bucket.width - 1)) {}

  // The elements that one call of EncodeBlocks encodes: four vectors of draws.
  static size_t ElementsOfStep() { return 4 * hn::Lanes(D16()); }

  // Encodes ElementsOfStep() elements from `element` on, a multiple of 8.
  HWY_INLINE void EncodeBlocks(const float* v, uint64_t element, uint32_t* codes) const {
    V64 blocks = InBlockOrder(static_cast<uint32_t>(element / 8));
    const Draws draws = FirstDraws(philox_, &blocks);
    const size_t lanes = hn::Lanes(D16());
    const uint64_t undecided[4] = {EncodeVectors(v, draws.q0, codes),
                                   EncodeVectors(v + lanes, draws.q1, codes + lanes),
                                   EncodeVectors(v + 2 * lanes, draws.q2, codes + 2 * lanes),
                                   EncodeVectors(v + 3 * lanes, draws.q3, codes + 3 * lanes)};
    if (HWY_LIKELY((undecided[0] | undecided[1] | undecided[2] | undecided[3]) == 0)) return;
    for (size_t k = 0; k < 4; ++k) {
      for (uint64_t bits = undecided[k]; bits != 0; bits &= bits - 1) {
        const size_t i = k * lanes + static_cast<size_t>(__builtin_ctzll(bits));
        codes[i] = CodeOf(v[i], element + i);
      }
    }
  }

  uint32_t CodeOf(float v, uint64_t element) const {
    uint32_t code = 0;
    EncodeQsgdRef(&v, 1, kIntervals, bucket_, key_, element, &code);
    return code;
  }

 private:
  // Encodes the two vectors of elements of one vector of draws. Returns a bit for each element that
  // CodeOf has to decide.
  HWY_INLINE uint64_t EncodeVectors(const float* v, V16 draws, uint32_t* codes) const {
    const hn::Half<D16> d16h;
    const size_t lanes = hn::Lanes(DI());
    const VI lower = hn::PromoteTo(DI(), hn::LowerHalf(d16h, draws));
    const VI upper = hn::PromoteTo(DI(), hn::UpperHalf(d16h, draws));
    const uint64_t undecided = EncodeLanes(v, lower, codes);
    return undecided | EncodeLanes(v + lanes, upper, codes + lanes) << lanes;
  }

  // Encodes a vector of elements as QsgdLevel (qsgd_math.h) does. Returns a bit for each element
  // that is not decided by its upper 16 random bits, `draw16`.
  HWY_INLINE uint64_t EncodeLanes(const float* v, VI draw16, uint32_t* codes) const {
    const DF df;
    const DI di;
    const VF x = hn::LoadU(df, v), unsigned_x = kIntervals ? x : hn::Abs(x);
    uint64_t undecided = 0;
    VI code = kQuick ? QuickLevels(unsigned_x, draw16, &undecided)
                     : ExactLevels(unsigned_x, draw16, &undecided);
    if constexpr (!kIntervals) {
      const auto is_signed =
          hn::And(hn::RebindMask(di, hn::Lt(x, hn::Zero(df))), hn::Gt(code, hn::Zero(di)));
      code = hn::Or(code, hn::IfThenElseZero(is_signed, hn::Set(di, sign_bit_)));
    }
    hn::StoreU(code, di, reinterpret_cast<int32_t*>(codes));
    return undecided;
  }

  // QuickLevel of a vector of elements. *undecided gets a bit for each that it cannot decide.
  HWY_INLINE VI QuickLevels(VF x, VI draw16, uint64_t* undecided) const {
    const DF df;
    const VF min_u = hn::Mul(hn::ConvertTo(df, draw16), hn::Set(df, 0x1p-16f));
    const VF error = hn::Set(df, quick_.error), scaled = hn::Mul(x, hn::Set(df, quick_.scale));
    const VF y = kIntervals ? hn::Add(scaled, hn::Set(df, quick_.shift)) : scaled;
    const VF max_u = hn::Add(min_u, hn::Set(df, 0x1p-16f));
    const VF lower_level = hn::Floor(hn::Sub(hn::Sub(y, max_u), error));
    const VF level = hn::Add(lower_level, hn::Set(df, 1));
    *undecided = MaskBits(df, hn::Not(hn::Lt(hn::Add(hn::Sub(y, min_u), error), level)));
    // The last bits of 2^23 + level are the level.
    const VF last_bits = hn::Set(df, 0x1p23f);
    return hn::BitCast(DI(), hn::Xor(hn::Add(level, last_bits), last_bits));
  }

  // QsgdLevel of a vector of elements. *undecided gets a bit for each that needs its lower 16
  // random bits.
  HWY_INLINE VI ExactLevels(VF x, VI draw16, uint64_t* undecided) const {
    const VF ratio = hn::Div(x, hn::Set(DF(), bucket_.norm));
    uint64_t lower_bits = 0, upper_bits = 0;
    const auto lower = LevelsOf(LowerDoubles(ratio), LowerDoubles(draw16), &lower_bits);
    const auto upper = LevelsOf(UpperDoubles(ratio), UpperDoubles(draw16), &upper_bits);
    *undecided = lower_bits | upper_bits << hn::Lanes(DD());
    return hn::Combine(DI(), upper, lower);
  }

  // The levels of elements whose quotients by the norm are `ratio`. An element goes up from the
  // level below it if its draw is less than the upper 16 bits of the probability, and stays if the
  // draw is greater; *undecided gets a bit for each element whose draw equals these bits.
  HWY_INLINE hn::Vec<DHalfI> LevelsOf(VD ratio, VD draw16, uint64_t* undecided) const {
    const DD d;
    const VD one = hn::Set(d, 1.0);
    const VD x = kIntervals ? hn::Mul(hn::Add(ratio, one), hn::Set(d, bucket_.s / 2))
                            : hn::Mul(ratio, hn::Set(d, bucket_.s));
    const VD lower_level = hn::Floor(x);
    const VD upper16 = hn::Floor(hn::Mul(hn::Sub(x, lower_level), hn::Set(d, 0x1p16)));
    *undecided = MaskBits(d, hn::Eq(draw16, upper16));
    const VD step = hn::IfThenElseZero(hn::Lt(draw16, upper16), one);
    return hn::DemoteTo(DHalfI(), hn::Add(lower_level, step));
  }

  QsgdBucket bucket_;
  QsgdQuick quick_;
  NoiseKey key_;
  Philox philox_;
  int32_t sign_bit_;
};

template <bool kIntervals, bool kQuick>
void EncodeBucket(const float* v, size_t n, const QsgdBucket& bucket, const NoiseKey& key,
                  uint64_t first, uint32_t* codes) {
  constexpr size_t kMaxStep = 128;  // elements
  using EncoderOfBucket = Encoder<kIntervals, kQuick>;
  const EncoderOfBucket encoder(bucket, key);
  const size_t step = EncoderOfBucket::ElementsOfStep();
  size_t i = 0;
  // The elements of the first block of random numbers, if that begins before the bucket.
  for (; i < n && (first + i) % 8 != 0; ++i) codes[i] = encoder.CodeOf(v[i], first + i);
  for (; n - i >= step; i += step) encoder.EncodeBlocks(v + i, first + i, codes + i);
  if (i == n) return;
  float last_values[kMaxStep] = {};
  uint32_t last_codes[kMaxStep];
  std::memcpy(last_values, v + i, (n - i) * sizeof(float));
  encoder.EncodeBlocks(last_values, first + i, last_codes);
  std::memcpy(codes + i, last_codes, (n - i) * sizeof(uint32_t));
}

void EncodeQsgd(const float* v, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                const NoiseKey& key, uint64_t first, uint32_t* codes) {
  if (!(bucket.norm > 0)) return EncodeQsgdRef(v, n, uses_intervals, bucket, key, first, codes);
  // Of so many levels QuickLevel decides 99.9 % of the elements.
  constexpr double kMostQuickLevels = 512;
  const bool is_quick =
      bucket.s <= kMostQuickLevels && !std::isnan(QsgdQuickOf(uses_intervals, bucket).scale);
  const auto encode = uses_intervals
                          ? (is_quick ? EncodeBucket<true, true> : EncodeBucket<true, false>)
                          : (is_quick ? EncodeBucket<false, true> : EncodeBucket<false, false>);
  encode(v, n, bucket, key, first, codes);
}

// Decodes signed levels to values as QsgdValue (qsgd_math.h) does.
HWY_INLINE VF ValuesOf(VI signed_levels, double unit) {
  const DD d;
  const hn::Half<DF> dfh;
  const auto value_of = [&](VD level) HWY_ATTR {
    const VD value = hn::Mul(level, hn::Set(d, unit));
    const VD limit = hn::Set(d, kLargestFloat);
    return hn::DemoteTo(dfh, hn::Min(hn::Max(value, hn::Neg(limit)), limit));
  };
  return hn::Combine(DF(), value_of(UpperDoubles(signed_levels)),
                     value_of(LowerDoubles(signed_levels)));
}

// Calls decode(a vector of codes) for n codes, and stores the values that it returns.
template <class Decode>
HWY_INLINE void ForEachVector(const uint32_t* codes, size_t n, float* values,
                              const Decode& decode) {
  constexpr size_t kMaxLanes = 16;
  const DI di;
  const size_t lanes = hn::Lanes(di);
  const auto* numbers = reinterpret_cast<const int32_t*>(codes);
  size_t i = 0;
  for (; n - i >= lanes; i += lanes)
    hn::StoreU(decode(hn::LoadU(di, numbers + i)), DF(), values + i);
  if (i == n) return;
  int32_t last_codes[kMaxLanes] = {};  // Code 0 is valid.
  float last_values[kMaxLanes];
  std::memcpy(last_codes, numbers + i, (n - i) * sizeof(int32_t));
  hn::StoreU(decode(hn::LoadU(di, last_codes)), DF(), last_values);
  std::memcpy(values + i, last_values, (n - i) * sizeof(float));
}

bool DecodeQsgd(const uint32_t* codes, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                float* values) {
  if (!(bucket.norm > 0)) return DecodeQsgdRef(codes, n, uses_intervals, bucket, values);
  const DI di;
  const double unit = double{bucket.norm} / bucket.s;
  if (uses_intervals) {
    const VI intervals = hn::Set(di, (int32_t{1} << bucket.width) - 1);
    ForEachVector(codes, n, values, [&](VI code) HWY_ATTR {
      return ValuesOf(hn::Sub(hn::Add(code, code), intervals), unit);
    });
    return true;
  }
  const VI sign_bit = hn::Set(di, int32_t{1} << (bucket.width - 1));
  // If all magnitudes of a code fit a vector, it is a table of their values.
  const bool has_table = size_t{1} << (bucket.width - 1) <= hn::Lanes(di);
  const VF table = ValuesOf(hn::Iota(di, 0), unit);
  const VI max_level = hn::Set(di, static_cast<int32_t>(std::ceil(bucket.s)));
  VI is_invalid = hn::Zero(di);  // all bits of a lane are set once it saw an invalid code
  ForEachVector(codes, n, values, [&](VI code) HWY_ATTR {
    const VI level = hn::AndNot(sign_bit, code);
    is_invalid = hn::Or(
        is_invalid, hn::VecFromMask(di, hn::Or(hn::Eq(code, sign_bit), hn::Gt(level, max_level))));
    if (has_table) {
      const VF magnitude = hn::TableLookupLanes(table, hn::IndicesFromVec(DF(), level));
      const VI sign = hn::ShiftLeftSame(hn::And(code, sign_bit), 32 - bucket.width);
      return hn::Xor(magnitude, hn::BitCast(DF(), sign));
    }
    const auto is_negative = hn::TestBit(code, sign_bit);
    return ValuesOf(hn::IfThenElse(is_negative, hn::Neg(level), level), unit);
  });
  return hn::AllTrue(di, hn::Eq(is_invalid, hn::Zero(di)));
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(EncodeQsgd);
HWY_EXPORT(DecodeQsgd);

void EncodeQsgd(const float* v, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                const NoiseKey& key, uint64_t first, uint32_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeQsgd)(v, n, uses_intervals, bucket, key, first, codes);
}

bool DecodeQsgd(const uint32_t* codes, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                float* values) {
  return HWY_DYNAMIC_DISPATCH(DecodeQsgd)(codes, n, uses_intervals, bucket, values);
}

}  // namespace tern::kernels
#endif
