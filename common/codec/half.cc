// The codecs fp16 and bf16: gradients and means in 16-bit floats (IEEE half precision and bfloat16,
// kernels/codes/half.h), 2 bytes per element. The server adds in 32-bit floats.
#include "kernels/codes/half.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "common/codec/float_sum.h"
#include "common/codec/makers.h"

namespace tern::codec {
namespace {

constexpr size_t kBlockSize = 1024;  // elements that are converted at a time

// What distinguishes the two 16-bit formats.
struct HalfFormat {
  const char* name;
  void (*encode)(const float* x, size_t n, uint16_t* half);
  void (*decode)(const uint16_t* half, size_t n, float* x);
};
constexpr HalfFormat kFp16 = {"fp16", kernels::FloatToHalf, kernels::HalfToFloat};
constexpr HalfFormat kBf16 = {"bf16", kernels::FloatToBfloat, kernels::BfloatToFloat};

void AppendHalves(const HalfFormat& format, std::span<const float> values,
                  std::vector<uint8_t>* out) {
  std::array<uint16_t, kBlockSize> halves;
  for (size_t first = 0; first < values.size(); first += kBlockSize) {
    const size_t n = std::min(kBlockSize, values.size() - first);
    format.encode(values.data() + first, n, halves.data());
    const size_t begin = out->size();
    out->resize(begin + 2 * n);
    std::memcpy(out->data() + begin, halves.data(), 2 * n);
  }
}

// Passes the first `count` 16-bit floats of `bytes` to `visit`, as floats and a block at a time.
// `bytes` may have any alignment.
template <typename Visit>
void ForEachBlock(const HalfFormat& format, std::span<const uint8_t> bytes, uint64_t count,
                  Visit visit) {
  std::array<uint16_t, kBlockSize> halves;
  std::array<float, kBlockSize> floats;
  for (uint64_t first = 0; first < count; first += kBlockSize) {
    const size_t n = std::min<uint64_t>(kBlockSize, count - first);
    std::memcpy(halves.data(), bytes.data() + 2 * first, 2 * n);
    format.decode(halves.data(), n, floats.data());
    visit(first, std::span<const float>(floats).first(n));
  }
}

class HalfSum : public RankOrderedSum {
 public:
  HalfSum(const HalfFormat& format, uint64_t count, int workers)
      : RankOrderedSum(count, workers), format_(format) {}
  void EncodeSum(std::vector<uint8_t>* out) override {
    std::array<float, kBlockSize> block;
    for (uint64_t first = 0; first < count(); first += kBlockSize) {
      const std::span<float> mean =
          std::span(block).first(std::min<uint64_t>(kBlockSize, count() - first));
      ComputeMeanOfRange(first, mean);
      AppendHalves(format_, mean, out);
    }
  }

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    if (bytes.size() / 2 < count()) {
      return Status(Code::kMismatch, std::string(format_.name) +
                                         " code cut short: " + std::to_string(bytes.size()) +
                                         " bytes, expected " + std::to_string(2 * count()));
    }
    Status finite_status;
    ForEachBlock(format_, bytes, count(), [&](uint64_t first, std::span<const float> values) {
      if (finite_status.ok()) finite_status = CheckFinite(values, first);
    });
    if (!finite_status.ok()) return finite_status.Within(std::string(format_.name) + " code");
    return 2 * count();
  }
  void AddTo(std::span<const uint8_t> code, float* sum) const override {
    ForEachBlock(format_, code, count(), [&](uint64_t first, std::span<const float> values) {
      for (size_t i = 0; i < values.size(); ++i) sum[first + i] += values[i];
    });
  }

 private:
  const HalfFormat& format_;
};

class Half : public Codec {
 public:
  explicit Half(const HalfFormat& format) : format_(format) {}

  std::string_view name() const override { return format_.name; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    return {stats.max_abs, std::numeric_limits<float>::infinity()};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams&, const kernels::NoiseKey&,
              std::vector<uint8_t>* out) const override {
    AppendHalves(format_, {g, segment.count}, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override { return 2 * segment.count; }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs&) const override {
    return std::make_unique<HalfSum>(format_, segment.count, workers);
  }
  bool SingleCodeIsSum() const override { return true; }
  size_t MaxSumSize(const Segment& segment, int) const override { return 2 * segment.count; }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int, float, uint64_t first,
                uint64_t n, float* mean) const override {
    TERN_RETURN_IF_ERROR(CheckSumAndRange(name(), sum, 2 * segment.count, segment.count, first, n));
    ForEachBlock(format_, sum.subspan(2 * first), n,
                 [&](uint64_t block_first, std::span<const float> values) {
                   std::copy(values.begin(), values.end(), mean + block_first);
                 });
    return CheckSumIsFinite(format_.name, {mean, n}, first);
  }

 private:
  const HalfFormat& format_;
};

}  // namespace

std::unique_ptr<Codec> MakeFp16() { return std::make_unique<Half>(kFp16); }
std::unique_ptr<Codec> MakeBf16() { return std::make_unique<Half>(kBf16); }

}  // namespace tern::codec
