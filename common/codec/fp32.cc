// The codec fp32: gradients and means in full precision, 4 bytes per element. It is the baseline to
// which papers compare compressed codes.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "common/codec/float_sum.h"
#include "common/codec/makers.h"

namespace tern::codec {
namespace {

class Fp32Sum : public RankOrderedSum {
 public:
  using RankOrderedSum::RankOrderedSum;

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    if (bytes.size() / 4 < count()) {
      return Status(Code::kMismatch, "fp32 code cut short: " + std::to_string(bytes.size()) +
                                         " bytes, expected " + std::to_string(4 * count()));
    }
    Status finite_status;
    ForEachBlock(bytes, [&](uint64_t first, std::span<const float> values) {
      if (finite_status.ok()) finite_status = CheckFinite(values, first);
    });
    if (!finite_status.ok()) return finite_status.Within("fp32 code");
    return 4 * count();
  }
  void AddTo(std::span<const uint8_t> code, float* sum) const override {
    ForEachBlock(code, [&](uint64_t first, std::span<const float> values) {
      for (size_t i = 0; i < values.size(); ++i) sum[first + i] += values[i];
    });
  }

 private:
  // A code may start at any byte, so its floats are read through an aligned block.
  template <typename Visit>
  void ForEachBlock(std::span<const uint8_t> bytes, Visit visit) const {
    std::array<float, 1024> block;
    for (uint64_t first = 0; first < count(); first += block.size()) {
      const std::span<float> values =
          std::span(block).first(std::min<uint64_t>(block.size(), count() - first));
      ReadFloats(bytes.subspan(4 * first), values);
      visit(first, std::span<const float>(values));
    }
  }
};

class Fp32 : public Codec {
 public:
  std::string_view name() const override { return "fp32"; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    return {stats.max_abs, std::numeric_limits<float>::infinity()};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams&, const kernels::NoiseKey&,
              std::vector<uint8_t>* out) const override {
    AppendFloats({g, segment.count}, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override { return 4 * segment.count; }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs&) const override {
    return std::make_unique<Fp32Sum>(segment.count, workers);
  }
  bool adds_partial_sums() const override { return true; }
  bool SingleCodeIsSum() const override { return true; }
  size_t MaxSumSize(const Segment& segment, int) const override { return 4 * segment.count; }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int, float, uint64_t first,
                uint64_t n, float* mean) const override {
    return DecodeFloatMean(name(), sum, segment.count, first, n, mean);
  }
};

}  // namespace

std::unique_ptr<Codec> MakeFp32() { return std::make_unique<Fp32>(); }

}  // namespace tern::codec
