// Rounds values to the levels of QSGD (Alistarh et al. 2017) at random, and decodes levels.
#include "common/codec/qsgd_levels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "common/base/text.h"
#include "kernels/codes/qsgd.h"
#include "kernels/codes/stats.h"

namespace tern::codec {
namespace {

using Qsgd = Options::Qsgd;

using kernels::kQsgdMostLevels;
static_assert(kernels::kQsgdMaxBits == kMaxPackedBits);
constexpr uint64_t kMaxBucketElements = uint64_t{1} << 31;

kernels::QsgdRule RuleOf(const Qsgd& options) {
  const bool has_signs = options.layout == Qsgd::Layout::kSign;
  kernels::QsgdRule rule{options.norm == Qsgd::Norm::kTwo, !has_signs, 0, 0, 0};
  switch (options.levels) {
    case Qsgd::Levels::kBits:
      rule.bits = options.bits;
      rule.levels = (1 << (has_signs ? options.bits - 1 : options.bits)) - 1;
      break;
    case Qsgd::Levels::kGiven:
      rule.levels = options.s;
      break;
    case Qsgd::Levels::kSqrtN:
      rule.per_element = 1;
      break;
    case Qsgd::Levels::kSqrtMN:
      rule.per_element = static_cast<double>(options.samples);
      break;
    case Qsgd::Levels::kSqrtMPN:
      rule.per_element =
          static_cast<double>(options.samples) * static_cast<double>(options.local_steps);
      break;
  }
  return rule;
}

}  // namespace

QsgdLevels::QsgdLevels(const Qsgd& options) : rule_(RuleOf(options)) {}

QsgdLevels::Bucket QsgdLevels::Measure(std::span<const float> v) const {
  if (!rule_.uses_two_norm)
    return kernels::MeasuredQsgdBucket(rule_, kernels::MaxAbs(v.data(), v.size()), 0, v.size());
  const kernels::Stats stats = kernels::ComputeStats(v.data(), v.size());
  return kernels::MeasuredQsgdBucket(rule_, stats.max_abs, stats.sum_squares, v.size());
}

Status QsgdLevels::Check(float norm, int width, uint64_t n) const {
  if (kernels::IsValidQsgdBucket(rule_, norm, width, n)) return Ok();
  if (!std::isfinite(norm) || std::signbit(norm))
    return Status(Code::kMismatch, Cat("norm is ", norm, ", expected finite and not negative"));
  const int min_width = norm > 0 ? 2 : 0,
            max_width = norm > 0 ? kernels::QsgdMaxWidth(rule_, n) : 0;
  return Status(Code::kMismatch, Cat(width, " bits per element in a bucket of ", n, " with norm ",
                                     norm, ", expected ", min_width, " to ", max_width));
}

void QsgdLevels::Encode(std::span<const float> v, const Bucket& bucket,
                        const kernels::NoiseKey& noise, uint64_t first,
                        std::span<uint32_t> codes) const {
  kernels::EncodeQsgd(v.data(), v.size(), rule_.uses_intervals, bucket, noise, first, codes.data());
}

bool QsgdLevels::Decode(std::span<const uint32_t> codes, const Bucket& bucket,
                        std::span<float> values) const {
  return kernels::DecodeQsgd(codes.data(), codes.size(), rule_.uses_intervals, bucket,
                             values.data());
}

bool QsgdLevels::AreValid(const PackedNumbers& codes, const Bucket& bucket) const {
  if (rule_.uses_intervals && bucket.norm > 0) return true;
  const auto sign_bit = static_cast<int32_t>(uint32_t{1} << std::max(bucket.width - 1, 0));
  const int32_t max_level = bucket.norm > 0 ? static_cast<int32_t>(std::ceil(bucket.s)) : 0;
  if (bucket.norm > 0 && max_level >= sign_bit - 1)  // Every magnitude is a level.
    return !Contains(codes, static_cast<uint32_t>(sign_bit));
  uint32_t invalid = 0;
  std::array<uint32_t, 1024> block;
  for (size_t i = 0; i < codes.count; i += block.size()) {
    const std::span<uint32_t> numbers =
        std::span(block).first(std::min(block.size(), codes.count - i));
    Unpack({codes.bytes, codes.first_bit + i * static_cast<uint64_t>(codes.width), codes.width,
            numbers.size()},
           numbers);
    // Without branches, so that compilers vectorize it.
    for (const uint32_t number : numbers) {
      const auto code = static_cast<int32_t>(number);
      invalid |= static_cast<uint32_t>(code == sign_bit) |
                 static_cast<uint32_t>((code & ~sign_bit) > max_level);
    }
  }
  return invalid == 0;
}

Status CheckQsgd(const Qsgd& options) {
  const auto bad_job_error = [](const std::string& message) {
    return Status(Code::kBadJob, "exchange.qsgd." + message);
  };
  if (options.bits < 2 || options.bits > 16)
    return bad_job_error(Cat("bits is ", options.bits, ", expected 2 to 16"));
  if (options.bucket > kMaxBucketElements)
    return bad_job_error(Cat("bucket_elements is ", options.bucket, ", expected at most ",
                             kMaxBucketElements, " elements"));
  if (options.levels == Qsgd::Levels::kBits) return Ok();
  if (options.layout == Qsgd::Layout::kIntervals)
    return bad_job_error(
        "layout is intervals, whose number is 2^bits - 1: leave levels at by_bits, or set layout "
        "to sign");
  if (options.levels == Qsgd::Levels::kGiven && !(options.s >= 1 && options.s <= kQsgdMostLevels))
    return bad_job_error(Cat("s is ", options.s, ", expected 1 to ", kQsgdMostLevels, " levels"));
  if (options.samples == 0 || options.local_steps == 0)
    return Status(
        Code::kInternal,
        "qsgd options have no samples per step or no local steps, expected at least 1 of each");
  return Ok();
}

}  // namespace tern::codec
