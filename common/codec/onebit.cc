// 1bitSGD (Seide et al. 2014). Elements are coded in groups of neighbours: a column (the elements
// that contribute to one output of the layer) or a bucket of a fixed size. Each negative element
// becomes the mean of the group's negative elements, each other element the mean of the group's
// other elements. Workers use error feedback for the gradients, and the server for the mean
// (docs/ALGORITHMS.md, section 15).
#include "kernels/codes/onebit.h"

#include <algorithm>
#include <array>
#include <cstring>
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
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

constexpr size_t kBlockSize = 4096;  // elements that are processed at a time
constexpr uint64_t kMaxBucketSize = uint64_t{1} << 31;
constexpr float kLargestFloat = std::numeric_limits<float>::max();

// The means of a group's negative elements and of its other elements; the mean of no elements is 0.
struct GroupMeans {
  float negative = 0;
  float non_negative = 0;
};

bool AreValid(const GroupMeans& means) {
  return kernels::AreOneBitMeans(means.negative, means.non_negative);
}

Status InvalidMeans(uint64_t group, const GroupMeans& means) {
  return Status(Code::kMismatch,
                Cat("onebit means of group ", group, " are ", means.negative, " and ",
                    means.non_negative, ", expected finite ones, at most 0 and at least 0"));
}

// The byte format of the code of one segment (a range of a tensor): for each group the mean of its
// negative and of its other elements, IEEE single, little-endian; then one bit per element, 1 for a
// negative element.
class OneBitFormat {
 public:
  OneBitFormat(const Segment& segment, uint64_t bucket_size)
      : count_(segment.count),
        group_size_(std::max<uint64_t>(1, bucket_size == 0 ? segment.column : bucket_size)) {}

  // The number of elements of the segment.
  uint64_t count() const { return count_; }
  // The size of the code in bytes.
  size_t size() const { return kernels::OneBitSize(count_, group_size_); }

  // Appends the code of g[0, count()).
  void Append(const float* g, std::vector<uint8_t>* out) const;
  // Checks a code at the front of `bytes`: its size, its means, and that the means agree with the
  // signs. Returns the size of the code; kMismatch if the code is invalid.
  Result<size_t> Check(std::span<const uint8_t> bytes) const;
  // kMismatch if an unused bit of the code's last byte is set. REQUIRES size() bytes.
  Status CheckEnd(std::span<const uint8_t> code) const;
  // Decodes elements [first, first + n) into values[0, n). kMismatch if a mean is invalid. REQUIRES
  // size() bytes, and first + n <= count().
  Status Read(std::span<const uint8_t> code, uint64_t first, uint64_t n, float* values) const;

 private:
  size_t means_bytes() const { return kernels::OneBitMeansSize(count_, group_size_); }
  static GroupMeans MeansAt(std::span<const uint8_t> code, uint64_t group) {
    std::array<float, 2> mean_pair;
    std::memcpy(mean_pair.data(), &code[group * kernels::kOneBitMeansBytes], sizeof mean_pair);
    return {mean_pair[0], mean_pair[1]};
  }

  uint64_t count_;       // elements of the segment
  uint64_t group_size_;  // elements of a group, except the last group
};

void OneBitFormat::Append(const float* g, std::vector<uint8_t>* out) const {
  const size_t begin = out->size();
  out->resize(begin + size());
  uint8_t* means = out->data() + begin;
  for (uint64_t first = 0; first < count_; first += group_size_) {
    const uint64_t n = std::min(group_size_, count_ - first);
    const kernels::OneBitSums sums = kernels::SumOneBit(g + first, n);
    const std::array<float, 2> mean_pair = {
        kernels::OneBitMean(sums.lower, sums.num_negatives),
        kernels::OneBitMean(sums.upper, n - sums.num_negatives)};
    std::memcpy(means, mean_pair.data(), kernels::kOneBitMeansBytes);
    means += kernels::kOneBitMeansBytes;
  }
  kernels::PackOneBitSigns(g, count_, means);
}

Status OneBitFormat::CheckEnd(std::span<const uint8_t> code) const {
  if (UnusedBitsAreZero(code, count_)) return Ok();
  return Status(Code::kMismatch, Cat("onebit signs of ", count_,
                                     " elements have a bit set beyond the last of them"));
}

Result<size_t> OneBitFormat::Check(std::span<const uint8_t> bytes) const {
  if (bytes.size() < size()) {
    return Status(Code::kMismatch, Cat("onebit code cut short: ", bytes.size(), " bytes, expected ",
                                       size(), " for ", count_, " elements"));
  }
  const std::span<const uint8_t> sign_bits = bytes.first(size()).subspan(means_bytes());
  TERN_RETURN_IF_ERROR(CheckEnd(bytes.first(size())));
  for (uint64_t first = 0; first < count_; first += group_size_) {
    const GroupMeans means = MeansAt(bytes, first / group_size_);
    if (!AreValid(means)) return InvalidMeans(first / group_size_, means);
    const uint64_t n = std::min(group_size_, count_ - first);
    const uint64_t num_negatives =
        kernels::CountOneBitSigns({sign_bits.data(), sign_bits.size(), first, n});
    if ((num_negatives > 0) == (means.negative < 0) &&
        (num_negatives < n || means.non_negative == 0))
      continue;
    return Status(Code::kMismatch, Cat("onebit means of group ", first / group_size_, " are ",
                                       means.negative, " and ", means.non_negative, ", but it has ",
                                       num_negatives, " negatives of ", n));
  }
  return size();
}

Status OneBitFormat::Read(std::span<const uint8_t> code, uint64_t first, uint64_t n,
                          float* values) const {
  const std::span<const uint8_t> sign_bits = code.subspan(means_bytes());
  for (const uint64_t end = first + n; first < end;) {
    const uint64_t group = first / group_size_;
    const GroupMeans means = MeansAt(code, group);
    if (!AreValid(means)) return InvalidMeans(group, means);
    const uint64_t group_end = std::min(end, (group + 1) * group_size_);
    const uint64_t length = group_end - first;
    kernels::ExpandOneBitSigns({sign_bits.data(), sign_bits.size(), first, length}, means.negative,
                               means.non_negative, values);
    values += length;
    first = group_end;
  }
  return Ok();
}

// Adds the decoded codes of the workers as floats.
class DecodedSum : public RankOrderedSum {
 public:
  DecodedSum(const OneBitFormat& format, int workers)
      : RankOrderedSum(format.count(), workers), format_(format) {}

  // Computes the mean of the whole segment.
  void ComputeMean(std::span<float> mean) { ComputeMeanOfRange(0, mean); }

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    return format_.Check(bytes);
  }
  void AddTo(std::span<const uint8_t> code, float* sum) const override {
    std::array<float, kBlockSize> values;
    for (uint64_t first = 0; first < format_.count(); first += kBlockSize) {
      const uint64_t n = std::min<uint64_t>(kBlockSize, format_.count() - first);
      CHECK(format_.Read(code, first, n, values.data()).ok());  // Check has accepted the code.
      for (uint64_t i = 0; i < n; ++i) sum[first + i] += values[i];
    }
  }

 private:
  const OneBitFormat format_;
};

// Encodes the mean of the workers' codes again. With a memory, encodes v = mean + r, where r is the
// error of the previous round's code of the mean, and keeps the error of the new code.
class RecodedSum : public Accumulator {
 public:
  RecodedSum(const OneBitFormat& format, int workers, const RecodeInputs& recode_inputs)
      : format_(format), memory_(recode_inputs.memory), sum_(format, workers) {}

  Result<size_t> Add(int rank, std::span<const uint8_t> bytes) override {
    return sum_.Add(rank, bytes);
  }
  void EncodeSum(std::vector<uint8_t>* out) override {
    std::vector<float> v(format_.count());
    sum_.ComputeMean(v);
    if (memory_ != nullptr) {
      const std::span<const float> compensated = memory_->Compensate(0, v, v);
      CHECK_EQ(compensated.data(), v.data());  // Error feedback sets v.
    }
    // A sum of finite numbers may overflow; the largest finite number is encoded instead.
    for (float& x : v) x = std::clamp(x, -kLargestFloat, kLargestFloat);
    const size_t begin = out->size();
    format_.Append(v.data(), out);
    if (memory_ == nullptr) return;
    std::vector<float> sent(format_.count());
    const std::span<const uint8_t> code = std::span(*out).subspan(begin);
    CHECK(format_.Read(code, 0, sent.size(), sent.data()).ok());  // The code was just encoded.
    memory_->Update(0, v, sent);
  }

 private:
  const OneBitFormat format_;
  Memory* memory_;
  DecodedSum sum_;
};

class OneBit : public Codec {
 public:
  explicit OneBit(const Options& options)
      : bucket_size_(options.keys.onebit().bucket_elements()), coded_sums_(options.coded_sums) {}

  std::string_view name() const override { return "onebit"; }
  uint64_t Granularity(uint64_t column) const override {
    return std::max<uint64_t>(1, bucket_size_ == 0 ? column : bucket_size_);
  }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    return {stats.max_abs, std::numeric_limits<float>::infinity()};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams&, const kernels::NoiseKey&,
              std::vector<uint8_t>* out) const override {
    OneBitFormat(segment, bucket_size_).Append(g, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return OneBitFormat(segment, bucket_size_).size();
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs& recode_inputs) const override {
    const OneBitFormat format(segment, bucket_size_);
    if (!coded_sums_) return std::make_unique<DecodedSum>(format, workers);
    return std::make_unique<RecodedSum>(format, workers, recode_inputs);
  }
  size_t MaxSumSize(const Segment& segment, int) const override {
    return coded_sums_ ? OneBitFormat(segment, bucket_size_).size() : sizeof(float) * segment.count;
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<ErrorFeedback>(count);
  }
  std::unique_ptr<Memory> NewSumMemory(const Segment& segment) const override {
    if (!coded_sums_) return nullptr;
    return std::make_unique<ErrorFeedback>(segment.count);
  }
  // True for coded sums, because the mean of a single worker's code has the same code.
  bool SingleCodeIsSum() const override { return coded_sums_; }
  Result<size_t> DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                  float* values) const override {
    const OneBitFormat format(segment, bucket_size_);
    Result<size_t> size = format.Check(code);
    if (!size.ok()) return size;
    TERN_RETURN_IF_ERROR(format.Read(code, 0, segment.count, values));
    return size;
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int, float, uint64_t first,
                uint64_t n, float* mean) const override {
    if (!coded_sums_) return DecodeFloatMean(name(), sum, segment.count, first, n, mean);
    const OneBitFormat format(segment, bucket_size_);
    TERN_RETURN_IF_ERROR(CheckSumAndRange(name(), sum, format.size(), segment.count, first, n));
    TERN_RETURN_IF_ERROR(format.CheckEnd(sum));
    return format.Read(sum, first, n, mean);
  }

 private:
  uint64_t bucket_size_;
  bool coded_sums_;
};

}  // namespace

Result<std::unique_ptr<Codec>> MakeOneBit(const Options& options) {
  const uint64_t bucket_size = options.keys.onebit().bucket_elements();
  if (bucket_size > kMaxBucketSize) {
    return Status(Code::kBadJob, Cat("exchange.onebit.bucket_elements is ", bucket_size,
                                     ", expected at most ", kMaxBucketSize, " elements"));
  }
  return std::unique_ptr<Codec>(std::make_unique<OneBit>(options));
}

}  // namespace tern::codec
