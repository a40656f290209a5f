#include "kernels/ternary.h"

#include <cmath>
#include <string>

#include "common/codec/clip.h"
#include "common/codec/codecs.h"
#include "common/codec/mask_signs.h"
#include "common/codec/ternary_wire.h"
#include "kernels/planes.h"

namespace tern::codec {
namespace {

class MaskAndSigns : public TernaryWire {
 public:
  std::string_view name() const override { return "ternary"; }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    AppendMaskSigns(g, segment, prepared, noise, out);
  }
  size_t MaxCodeSize(uint64_t count) const override { return 2 * kernels::PlaneBytes(count); }
  Result<Parsed> Parse(std::span<const uint8_t> bytes, uint64_t count,
                       std::vector<uint8_t>*) const override {
    Result<MaskSigns> code = ParseMaskSigns(bytes, count);
    if (!code.ok()) return code.status();
    return Parsed{*code, code->size()};
  }
};

// Sums are integers: any order of arrival gives the same planes, and the planes are the answer. In
// two's complement a sum of fewer workers is the same integers in fewer planes, the lowest.
class TernarySum : public Accumulator {
 public:
  TernarySum(const TernaryWire& wire, uint64_t count, int workers)
      : wire_(wire),
        count_(count),
        bits_(kernels::SumBits(workers)),
        planes_(bits_ * kernels::PlaneBytes(count)) {}

  Result<size_t> Add(int, std::span<const uint8_t> bytes) override {
    Result<TernaryWire::Parsed> parsed = wire_.Parse(bytes, count_, &scratch_);
    if (!parsed.ok()) return parsed.status();
    const MaskSigns& code = parsed->code;
    kernels::AddCodes(code.mask.data(), code.signs.data(), count_, bits_, planes_.data());
    ++contributors_;
    return parsed->size;
  }
  void EncodeSum(std::vector<uint8_t>* out) override {
    const size_t bytes = kernels::SumBits(contributors_) * kernels::PlaneBytes(count_);
    wire_.AppendSum(std::span(planes_).first(bytes), count_, contributors_, out);
  }

 private:
  const TernaryWire& wire_;
  uint64_t count_;
  int bits_;
  int contributors_ = 0;
  std::vector<uint8_t> planes_;
  std::vector<uint8_t> scratch_;
};

class Ternary : public Codec {
 public:
  Ternary(const TernaryWire& wire, const Options& options) : wire_(wire), options_(options) {}

  std::string_view name() const override { return wire_.name(); }
  bool stochastic() const override { return true; }
  uint64_t scaler_elements() const override { return options_.scaler_elements; }
  bool shares_scaler() const override { return true; }
  Prepared Prepare(const kernels::Stats& stats, std::span<const float> values,
                   const kernels::NoiseKey&) const override {
    return PrepareTernary(stats, values.size(), options_);
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    wire_.Encode(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return wire_.MaxCodeSize(segment.count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const Recode&) const override {
    return std::make_unique<TernarySum>(wire_, segment.count, workers);
  }
  size_t MaxSumSize(const Segment& segment, int contributors) const override {
    return wire_.MaxSumSize(segment.count, contributors);
  }
  Result<size_t> SumPart(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override {
    return wire_.SumPart(bytes, segment.count, contributors);
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override {
    if (!std::isfinite(scaler) || scaler < 0) {
      return Status(Code::kMismatch, "ternary scaler is " + std::to_string(scaler) +
                                         ", expected finite and not negative");
    }
    return wire_.Decode(sum, segment.count, contributors, scaler, first, n, mean);
  }

 private:
  const TernaryWire& wire_;
  Options options_;
};

}  // namespace

const TernaryWire& MaskSignsWire() {
  static const MaskAndSigns wire;
  return wire;
}

std::unique_ptr<Codec> MakeTernary(const Options& options, const TernaryWire& wire) {
  return std::make_unique<Ternary>(wire, options);
}

}  // namespace tern::codec
