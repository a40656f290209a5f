// QSGD (Alistarh et al. 2017), with the options of Options::Qsgd (docs/ALGORITHMS.md, section 14).
// Elements are rounded at random to levels, which are sent. The server decodes the levels, adds
// them as floats, and encodes the mean with QSGD again, or sends it as floats (qsgd_exact).
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/base/logging.h"
#include "common/codec/float_sum.h"
#include "common/codec/makers.h"
#include "common/codec/qsgd_form.h"

namespace tern::codec {
namespace {

constexpr size_t kBlockSize = 4096;  // elements that are decoded at a time

// Adds the decoded codes of the workers as floats.
class DecodedSum : public RankOrderedSum {
 public:
  DecodedSum(const QsgdForm& format, uint64_t count, int workers)
      : RankOrderedSum(count, workers), format_(format) {}

  // Computes the mean of the whole segment (a range of a tensor). The sum of finite numbers may
  // overflow; such a mean is replaced by the largest finite float of its sign.
  void ComputeFiniteMean(std::span<float> mean) {
    constexpr float kLargestFloat = std::numeric_limits<float>::max();
    ComputeMeanOfRange(0, mean);
    for (float& v : mean) v = std::clamp(v, -kLargestFloat, kLargestFloat);
  }

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    Result<size_t> size = format_.CodeSize(bytes, count());
    if (!size.ok()) return size;
    TERN_RETURN_IF_ERROR(format_.CheckLevels(bytes.first(*size), count()));
    return size;
  }
  void AddTo(std::span<const uint8_t> code, float* sum) const override {
    const Status read_status =
        ForEachBlock(code, [&](uint64_t first, std::span<const float> values) {
          for (size_t i = 0; i < values.size(); ++i) sum[first + i] += values[i];
        });
    CHECK(read_status.ok()) << read_status.message();  // Check has accepted the code.
  }

 private:
  // Decodes the code block by block, and calls visit(index of the first element, values) for each.
  template <typename Visit>
  Status ForEachBlock(std::span<const uint8_t> code, Visit visit) const {
    std::array<float, kBlockSize> values;
    for (uint64_t first = 0; first < count(); first += kBlockSize) {
      const uint64_t n = std::min<uint64_t>(kBlockSize, count() - first);
      TERN_RETURN_IF_ERROR(format_.DecodeRange(code, count(), first, n, values.data()));
      visit(first, std::span<const float>(values).first(n));
    }
    return Ok();
  }

  const QsgdForm& format_;
};

// Encodes the mean of the workers' codes again. If only one worker contributes, its code is the
// result.
class RecodedSum : public Accumulator {
 public:
  RecodedSum(const QsgdForm& format, const Segment& segment, int workers,
             const RecodeInputs& recode_inputs)
      : format_(format),
        segment_(segment),
        noise_(recode_inputs.noise),
        sum_(format, segment.count, workers) {}

  Result<size_t> Add(int rank, std::span<const uint8_t> bytes) override {
    Result<size_t> size = sum_.Add(rank, bytes);
    if (!size.ok()) return size;
    single_code_ = std::vector<uint8_t>();
    if (++contributors_ == 1) single_code_.assign(bytes.begin(), bytes.begin() + *size);
    return size;
  }
  void EncodeSum(std::vector<uint8_t>* out) override {
    if (contributors_ == 1) {
      out->insert(out->end(), single_code_.begin(), single_code_.end());
      return;
    }
    std::vector<float> mean(segment_.count);
    sum_.ComputeFiniteMean(mean);
    format_.AppendCode(mean.data(), segment_, noise_, out);
  }

 private:
  const QsgdForm& format_;
  const Segment segment_;
  const kernels::NoiseKey noise_;
  DecodedSum sum_;
  int contributors_ = 0;
  std::vector<uint8_t> single_code_;  // the code of the only contributor; empty after a second one
};

class Qsgd : public Codec {
 public:
  explicit Qsgd(const Options& options)
      : format_(options.qsgd),
        bucket_size_(options.qsgd.bucket),
        name_(options.qsgd.exact_sums ? "qsgd_exact" : "qsgd"),
        coded_sums_(options.coded_sums && !options.qsgd.exact_sums) {}

  std::string_view name() const override { return name_; }
  bool is_stochastic() const override { return true; }
  uint64_t Granularity(uint64_t) const override {
    return bucket_size_ == 0 ? std::numeric_limits<uint64_t>::max() : bucket_size_;
  }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    return {stats.max_abs, std::numeric_limits<float>::infinity()};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams&,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    format_.AppendCode(g, segment, noise, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return format_.MaxSize(segment.count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs& recode_inputs) const override {
    if (!coded_sums_) return std::make_unique<DecodedSum>(format_, segment.count, workers);
    return std::make_unique<RecodedSum>(format_, segment, workers, recode_inputs);
  }
  size_t MaxSumSize(const Segment& segment, int) const override {
    return coded_sums_ ? format_.MaxSize(segment.count) : sizeof(float) * segment.count;
  }
  Result<size_t> SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override {
    return coded_sums_ ? format_.CodeSize(bytes, segment.count)
                       : Codec::SumSize(bytes, segment, contributors);
  }
  bool SingleCodeIsSum() const override { return coded_sums_; }
  Result<size_t> DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                  float* values) const override {
    Result<size_t> size = format_.CodeSize(code, segment.count);
    if (!size.ok()) return size;
    TERN_RETURN_IF_ERROR(
        format_.DecodeRange(code.first(*size), segment.count, 0, segment.count, values));
    return size;
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int, float, uint64_t first,
                uint64_t n, float* mean) const override {
    if (!coded_sums_) return DecodeFloatMean(name(), sum, segment.count, first, n, mean);
    Result<size_t> size = format_.CodeSize(sum, segment.count);
    if (!size.ok()) return size.status();
    TERN_RETURN_IF_ERROR(CheckSumAndRange(name(), sum, *size, segment.count, first, n));
    return format_.DecodeRange(sum, segment.count, first, n, mean);
  }

 private:
  QsgdForm format_;
  uint64_t bucket_size_;
  std::string_view name_;
  bool coded_sums_;  // Whether the bytes of a sum are a code; if not, they are floats.
};

}  // namespace

Result<std::unique_ptr<Codec>> MakeQsgd(const Options& options) {
  TERN_RETURN_IF_ERROR(CheckQsgd(options.qsgd));
  return std::unique_ptr<Codec>(std::make_unique<Qsgd>(options));
}

}  // namespace tern::codec
