// 1bitSGD (Seide et al. 2014; the low-precision study, section 2.2): each element becomes the mean
// of the negatives or of the non-negatives of its column or bucket. Both ways with error feedback:
// on the workers, and on the server for the sum (docs/ALGORITHMS.md, section 15).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/codec/error_feedback.h"
#include "common/codec/float_sum.h"
#include "common/codec/makers.h"
#include "common/codec/mask_signs.h"
#include "kernels/codes/onebit_math.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

constexpr size_t kBlock = 4096;
constexpr uint64_t kMaxBucket = uint64_t{1} << 31;
constexpr float kLargest = std::numeric_limits<float>::max();

// avg- and avg+ of Seide et al.: the values that stand for a group's negative and other elements; 0
// for an empty class.
struct Means {
  float lower = 0;
  float upper = 0;
};

// The code of one segment: the means of its groups, lower and upper, IEEE single, little-endian;
// then a plane of segment.count bits (kernels/codes/ternary.h), one = negative.
class OneBitForm {
 public:
  OneBitForm(const Segment& segment, uint64_t bucket)
      : count_(segment.count),
        group_(std::max<uint64_t>(1, bucket == 0 ? segment.column : bucket)) {}

  uint64_t count() const { return count_; }
  size_t size() const { return kernels::OneBitSize(count_, group_); }

  void Append(const float* g, std::vector<uint8_t>* out) const;
  // Checks a code: its size, its means, and that both agree with the signs.
  Result<size_t> Check(std::span<const uint8_t> bytes) const;
  // kMismatch if an unused bit of the code's last byte is set. REQUIRES size() bytes.
  Status CheckEnd(std::span<const uint8_t> code) const;
  // values[0, n) of elements [first, first + n). REQUIRES size() bytes, first + n <= count().
  Status Read(std::span<const uint8_t> code, uint64_t first, uint64_t n, float* values) const;

 private:
  size_t means_bytes() const { return kernels::OneBitMeansSize(count_, group_); }
  // kMismatch for invalid means.
  Status MeansAt(std::span<const uint8_t> code, uint64_t group, Means* means) const;

  uint64_t count_;
  uint64_t group_;
};

// Adds each class in the order of kernels/codes/stats.h, over all of v with 0 in place of elements
// of the other class.
Means MeansOf(std::span<const float> v) {
  std::array<float, kBlock> only;
  double sums[2] = {0, 0};
  uint64_t counts[2] = {0, 0};
  for (size_t first = 0; first < v.size(); first += kBlock) {
    const std::span<const float> block = v.subspan(first, std::min(kBlock, v.size() - first));
    for (const int negative : {0, 1}) {
      for (size_t i = 0; i < block.size(); ++i) {
        const bool counts_here = (block[i] < 0) == (negative == 1);
        only[i] = counts_here ? block[i] : 0.0f;
        counts[negative] += counts_here ? 1 : 0;
      }
      sums[negative] += kernels::ComputeStats(only.data(), block.size()).sum;
    }
  }
  return {kernels::OneBitMean(sums[1], counts[1]), kernels::OneBitMean(sums[0], counts[0])};
}

void OneBitForm::Append(const float* g, std::vector<uint8_t>* out) const {
  for (uint64_t first = 0; first < count_; first += group_) {
    const Means means = MeansOf({g + first, std::min(group_, count_ - first)});
    const std::array<float, 2> pair = {means.lower, means.upper};
    AppendFloats(pair, out);
  }
  const size_t plane = out->size();
  out->resize(plane + kernels::PlaneBytes(count_));
  for (uint64_t first = 0; first < count_; first += 8) {
    unsigned byte = 0;
    const uint64_t n = std::min<uint64_t>(8, count_ - first);
    for (uint64_t i = 0; i < n; ++i) byte |= unsigned{g[first + i] < 0} << i;
    (*out)[plane + first / 8] = static_cast<uint8_t>(byte);
  }
}

Status OneBitForm::MeansAt(std::span<const uint8_t> code, uint64_t group, Means* means) const {
  std::array<float, 2> pair;
  ReadFloats(code.subspan(group * kernels::kOneBitMeansBytes), pair);
  *means = {pair[0], pair[1]};
  if (kernels::AreOneBitMeans(means->lower, means->upper)) return Ok();
  return Status(Code::kMismatch, Cat("onebit means of group ", group, " are ", pair[0], " and ",
                                     pair[1], ", expected finite ones, at most 0 and at least 0"));
}

Status OneBitForm::CheckEnd(std::span<const uint8_t> code) const {
  if (UnusedBitsAreZero(code, count_)) return Ok();
  return Status(Code::kMismatch, Cat("onebit signs of ", count_,
                                     " elements have a bit set beyond the last of them"));
}

Result<size_t> OneBitForm::Check(std::span<const uint8_t> bytes) const {
  if (bytes.size() < size()) {
    return Status(Code::kMismatch, Cat("onebit code cut short: ", bytes.size(), " bytes, expected ",
                                       size(), " for ", count_, " elements"));
  }
  const std::span<const uint8_t> plane = bytes.first(size()).subspan(means_bytes());
  TERN_RETURN_IF_ERROR(CheckEnd(bytes.first(size())));
  for (uint64_t first = 0; first < count_; first += group_) {
    Means means;
    TERN_RETURN_IF_ERROR(MeansAt(bytes, first / group_, &means));
    const uint64_t n = std::min(group_, count_ - first);
    uint64_t negatives = 0;
    for (uint64_t i = first; i < first + n; ++i) negatives += plane[i / 8] >> (i % 8) & 1;
    if ((negatives > 0) == (means.lower < 0) && (negatives < n || means.upper == 0)) continue;
    return Status(Code::kMismatch,
                  Cat("onebit means of group ", first / group_, " are ", means.lower, " and ",
                      means.upper, ", but it has ", negatives, " negatives of ", n));
  }
  return size();
}

Status OneBitForm::Read(std::span<const uint8_t> code, uint64_t first, uint64_t n,
                        float* values) const {
  const uint8_t* plane = code.data() + means_bytes();
  for (const uint64_t stop = first + n; first < stop;) {
    const uint64_t group = first / group_;
    Means means;
    TERN_RETURN_IF_ERROR(MeansAt(code, group, &means));
    const uint64_t until = std::min(stop, (group + 1) * group_);
    const std::array<float, 2> pair = {means.upper, means.lower};
    for (; first < until; ++first) *values++ = pair[plane[first / 8] >> (first % 8) & 1];
  }
  return Ok();
}

class DecodedSum : public RankOrderedSum {
 public:
  DecodedSum(const OneBitForm& form, int workers)
      : RankOrderedSum(form.count(), workers), form_(form) {}

  void Mean(std::span<float> mean) { MeanOf(0, mean); }

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override { return form_.Check(bytes); }
  void AddTo(std::span<const uint8_t> part, float* sum) const override {
    std::array<float, kBlock> values;
    for (uint64_t first = 0; first < form_.count(); first += kBlock) {
      const uint64_t n = std::min<uint64_t>(kBlock, form_.count() - first);
      CHECK(form_.Read(part, first, n, values.data()).ok());  // Check accepted it
      for (uint64_t i = 0; i < n; ++i) sum[first + i] += values[i];
    }
  }

 private:
  const OneBitForm form_;
};

// v = mean + r, where r is the error of the last sum's code; encodes v and keeps the new r.
class RecodedSum : public Accumulator {
 public:
  RecodedSum(const OneBitForm& form, int workers, const Recode& recode)
      : form_(form), memory_(recode.memory), sum_(form, workers) {}

  Result<size_t> Add(int rank, std::span<const uint8_t> bytes) override {
    return sum_.Add(rank, bytes);
  }
  void EncodeSum(std::vector<uint8_t>* out) override {
    std::vector<float> v(form_.count());
    sum_.Mean(v);
    if (memory_ != nullptr) memory_->Compensate(0, v, v);
    // A sum of finite numbers may overflow; the largest finite number is encoded instead.
    for (float& x : v) x = std::clamp(x, -kLargest, kLargest);
    const size_t begin = out->size();
    form_.Append(v.data(), out);
    if (memory_ == nullptr) return;
    std::vector<float> sent(form_.count());
    const std::span<const uint8_t> code = std::span(*out).subspan(begin);
    CHECK(form_.Read(code, 0, sent.size(), sent.data()).ok());  // it was just encoded
    memory_->Update(0, v, sent);
  }

 private:
  const OneBitForm form_;
  Memory* memory_;
  DecodedSum sum_;
};

class OneBit : public Codec {
 public:
  explicit OneBit(const Options& options)
      : bucket_(options.keys.onebit().bucket_elements()), coded_sums_(options.coded_sums) {}

  std::string_view name() const override { return "onebit"; }
  uint64_t Granularity(uint64_t column) const override {
    return std::max<uint64_t>(1, bucket_ == 0 ? column : bucket_);
  }
  Prepared Prepare(const kernels::Stats& stats, std::span<const float>,
                   const kernels::NoiseKey&) const override {
    return {stats.max_abs, std::numeric_limits<float>::infinity()};
  }
  void Encode(const float* g, const Segment& segment, const Prepared&, const kernels::NoiseKey&,
              std::vector<uint8_t>* out) const override {
    OneBitForm(segment, bucket_).Append(g, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return OneBitForm(segment, bucket_).size();
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const Recode& recode) const override {
    const OneBitForm form(segment, bucket_);
    if (!coded_sums_) return std::make_unique<DecodedSum>(form, workers);
    return std::make_unique<RecodedSum>(form, workers, recode);
  }
  size_t MaxSumSize(const Segment& segment, int) const override {
    return coded_sums_ ? OneBitForm(segment, bucket_).size() : sizeof(float) * segment.count;
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<ErrorFeedback>(count);
  }
  std::unique_ptr<Memory> NewSumMemory(const Segment& segment) const override {
    if (!coded_sums_) return nullptr;
    return std::make_unique<ErrorFeedback>(segment.count);
  }
  // The mean of one worker's codes has the same code.
  bool CodeIsSum() const override { return coded_sums_; }
  Result<size_t> DecodeAlone(std::span<const uint8_t> code, const Segment& segment,
                             float* values) const override {
    const OneBitForm form(segment, bucket_);
    Result<size_t> size = form.Check(code);
    if (!size.ok()) return size;
    TERN_RETURN_IF_ERROR(form.Read(code, 0, segment.count, values));
    return size;
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int, float, uint64_t first,
                uint64_t n, float* mean) const override {
    if (!coded_sums_) return DecodeFloatMean(name(), sum, segment.count, first, n, mean);
    const OneBitForm form(segment, bucket_);
    TERN_RETURN_IF_ERROR(CheckSum(name(), sum, form.size(), segment.count, first, n));
    TERN_RETURN_IF_ERROR(form.CheckEnd(sum));
    return form.Read(sum, first, n, mean);
  }

 private:
  uint64_t bucket_;
  bool coded_sums_;
};

}  // namespace

Result<std::unique_ptr<Codec>> MakeOneBit(const Options& options) {
  const uint64_t bucket = options.keys.onebit().bucket_elements();
  if (bucket > kMaxBucket) {
    return Status(Code::kBadJob, Cat("exchange.onebit.bucket_elements is ", bucket,
                                     ", expected at most ", kMaxBucket, " elements"));
  }
  return std::unique_ptr<Codec>(std::make_unique<OneBit>(options));
}

}  // namespace tern::codec
