#include "common/codec/qsgd_levels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "common/base/text.h"
#include "common/codec/bit_pack.h"
#include "kernels/stats.h"

namespace tern::codec {
namespace {

using Qsgd = Options::Qsgd;

constexpr double kLargest = std::numeric_limits<float>::max();
// 2 s + 1 values in kMaxPackedBits.
constexpr double kMaxLevels = (1 << (kMaxPackedBits - 1)) - 1;

constexpr uint64_t kMaxBucket = uint64_t{1} << 31;

// ceil(log2(2 c + 1)).
int BitsFor(uint64_t c) { return static_cast<int>(std::bit_width(2 * c)); }

// Whether an event of probability p in [0, 1) happens, element by element in ascending order.
class Draws {
 public:
  explicit Draws(const kernels::NoiseKey& key) : key_(key) {}

  bool Fires(double p, uint64_t element) {
    const auto threshold = static_cast<uint32_t>(p * 0x1p32);
    if (const uint64_t block = element / 8; block != block_) {
      block_ = block;
      words_ = kernels::NoiseBlock(key_, static_cast<uint32_t>(block), 0);
    }
    const uint32_t draw = words_[element % 8 / 2] >> (16 * (element % 2)) & 0xFFFF;
    const uint32_t high = threshold >> 16;
    if (draw != high) return draw < high;
    return kernels::Draw16(key_, element, 1) < (threshold & 0xFFFF);
  }

 private:
  kernels::NoiseKey key_;
  uint64_t block_ = ~uint64_t{0};
  std::array<uint32_t, 4> words_{};
};

}  // namespace

bool QsgdLevels::SameWidth() const { return options_.levels == Qsgd::Levels::kBits; }

double QsgdLevels::LevelCount(uint64_t n) const {
  double s = 0;
  switch (options_.levels) {
    case Qsgd::Levels::kBits:
      return options_.layout == Qsgd::Layout::kSign ? (1 << (options_.bits - 1)) - 1
                                                    : (1 << options_.bits) - 1;
    case Qsgd::Levels::kGiven:
      return options_.s;
    case Qsgd::Levels::kSqrtN:
      s = static_cast<double>(n);
      break;
    case Qsgd::Levels::kSqrtMN:
      s = static_cast<double>(options_.samples) * static_cast<double>(n);
      break;
    case Qsgd::Levels::kSqrtMPN:
      s = static_cast<double>(options_.samples) * static_cast<double>(options_.local_steps) *
          static_cast<double>(n);
      break;
  }
  return std::min(std::sqrt(s) / 2, kMaxLevels);
}

int QsgdLevels::MaxWidth(uint64_t n) const {
  return SameWidth() ? options_.bits : BitsFor(static_cast<uint64_t>(std::ceil(LevelCount(n))));
}

QsgdLevels::Bucket QsgdLevels::Measure(std::span<const float> v) const {
  const kernels::Stats stats = kernels::ComputeStats(v.data(), v.size());
  Bucket bucket{stats.max_abs, options_.bits, LevelCount(v.size())};
  // Rounded upwards or downwards, it is not below the largest magnitude, which is a float.
  if (options_.norm == Qsgd::Norm::kTwo)
    bucket.norm = static_cast<float>(std::min(std::sqrt(stats.sum_squares), kLargest));
  if (SameWidth()) return bucket;
  const float largest = bucket.norm > 0 ? stats.max_abs / bucket.norm : 0;
  bucket.width = BitsFor(static_cast<uint64_t>(std::ceil(bucket.s * double{largest})));
  return bucket;
}

Status QsgdLevels::Check(float norm, int width, uint64_t n) const {
  if (!std::isfinite(norm) || std::signbit(norm))
    return Status(Code::kMismatch, Cat("norm is ", norm, ", expected finite and not negative"));
  const int largest = MaxWidth(n);
  const int least = norm > 0 ? 2 : 0, most = norm > 0 ? largest : 0;
  if (SameWidth() || (width >= least && width <= most)) return Ok();
  return Status(Code::kMismatch, Cat(width, " bits an element in a bucket of ", n, " with norm ",
                                     norm, ", expected ", least, " to ", most));
}

void QsgdLevels::Encode(std::span<const float> v, const Bucket& bucket,
                        const kernels::NoiseKey& noise, uint64_t first,
                        std::span<uint32_t> codes) const {
  if (!(bucket.norm > 0)) {
    std::fill(codes.begin(), codes.end(), 0);
    return;
  }
  Draws draws(noise);
  const auto level = [&](double x, uint64_t element) {
    const auto below = static_cast<uint32_t>(x);
    return below + uint32_t{draws.Fires(x - below, element)};
  };
  if (options_.layout == Qsgd::Layout::kIntervals) {
    for (size_t i = 0; i < v.size(); ++i)
      codes[i] = level((double{v[i] / bucket.norm} + 1) * (bucket.s / 2), first + i);
    return;
  }
  const uint32_t minus = uint32_t{1} << (bucket.width - 1);
  for (size_t i = 0; i < v.size(); ++i) {
    const uint32_t l = level(double{std::abs(v[i]) / bucket.norm} * bucket.s, first + i);
    codes[i] = l | minus * (uint32_t{v[i] < 0} & uint32_t{l > 0});  // no branch can foresee it
  }
}

bool QsgdLevels::Decode(std::span<const uint32_t> codes, const Bucket& bucket,
                        std::span<float> values) const {
  const double unit = double{bucket.norm} / bucket.s;
  // At s that is no whole number the last level lies above the norm.
  const auto value = [unit](int32_t c) {
    return static_cast<float>(std::clamp(c * unit, -kLargest, kLargest));
  };
  if (!(bucket.norm > 0)) {
    uint32_t any = 0;
    for (const uint32_t code : codes) any |= code;
    std::fill(values.begin(), values.end(), 0.0f);
    return any == 0;
  }
  if (options_.layout == Qsgd::Layout::kIntervals) {
    const int32_t m = (int32_t{1} << options_.bits) - 1;
    for (size_t i = 0; i < codes.size(); ++i)
      values[i] = value(2 * static_cast<int32_t>(codes[i]) - m);
    return true;
  }
  const uint32_t minus = uint32_t{1} << (bucket.width - 1);
  const auto last = static_cast<int32_t>(std::ceil(bucket.s));
  bool good = true;
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto l = static_cast<int32_t>(codes[i] & (minus - 1));
    good &= codes[i] != minus && l <= last;  // minus nothing is no code
    values[i] = value((codes[i] & minus) != 0 ? -l : l);
  }
  return good;
}

Status CheckQsgd(const Qsgd& options) {
  const auto bad = [](const std::string& what) {
    return Status(Code::kBadJob, "exchange.qsgd." + what);
  };
  if (options.bits < 2 || options.bits > 16)
    return bad(Cat("bits is ", options.bits, ", expected 2 to 16"));
  if (options.bucket > kMaxBucket)
    return bad(Cat("bucket is ", options.bucket, ", expected at most ", kMaxBucket, " elements"));
  if (options.levels == Qsgd::Levels::kBits) return Ok();
  if (options.layout == Qsgd::Layout::kIntervals)
    return bad(
        "layout is intervals, whose number is 2^bits - 1: leave levels at bits, or set layout "
        "to sign");
  if (options.levels == Qsgd::Levels::kGiven && !(options.s >= 1 && options.s <= kMaxLevels))
    return bad(Cat("s is ", options.s, ", expected 1 to ", kMaxLevels, " levels"));
  if (options.samples == 0 || options.local_steps == 0)
    return Status(Code::kInternal, "qsgd without samples or local steps");
  return Ok();
}

}  // namespace tern::codec
