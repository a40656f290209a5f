#include "kernels/ternary.h"

#include <cmath>
#include <string>

#include "common/codec/clip.h"
#include "common/codec/codecs.h"
#include "common/codec/float_sum.h"
#include "common/codec/mask_signs.h"
#include "kernels/planes.h"

namespace tern::codec {
namespace {

// Sums are integers: any order of arrival gives the same planes, and the planes are the answer. In
// two's complement a sum of fewer workers is the same integers in fewer planes, the lowest.
class TernarySum : public Accumulator {
 public:
  TernarySum(uint64_t count, int workers)
      : count_(count),
        bits_(kernels::SumBits(workers)),
        planes_(bits_ * kernels::PlaneBytes(count)) {}

  Result<size_t> Add(int, std::span<const uint8_t> bytes) override {
    Result<MaskSigns> code = ParseMaskSigns(bytes, count_);
    if (!code.ok()) return code.status();
    kernels::AddCodes(code->mask.data(), code->signs.data(), count_, bits_, planes_.data());
    ++contributors_;
    return code->size();
  }
  void EncodeSum(std::vector<uint8_t>* out) override {
    const size_t bytes = kernels::SumBits(contributors_) * kernels::PlaneBytes(count_);
    out->insert(out->end(), planes_.begin(), planes_.begin() + bytes);
  }

 private:
  uint64_t count_;
  int bits_;
  int contributors_ = 0;
  std::vector<uint8_t> planes_;
};

class Ternary : public Codec {
 public:
  explicit Ternary(const Options& options) : options_(options) {}

  std::string_view name() const override { return "ternary"; }
  bool stochastic() const override { return true; }
  bool shares_scaler() const override { return true; }
  Prepared Prepare(const kernels::Stats& stats, size_t n) const override {
    return PrepareTernary(stats, n, options_);
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    AppendMaskSigns(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(uint64_t count) const override { return 2 * kernels::PlaneBytes(count); }
  std::unique_ptr<Accumulator> NewAccumulator(uint64_t count, int workers) const override {
    return std::make_unique<TernarySum>(count, workers);
  }
  size_t SumSize(uint64_t count, int contributors) const override {
    return kernels::SumBits(contributors) * kernels::PlaneBytes(count);
  }
  Status Decode(std::span<const uint8_t> sum, uint64_t count, int contributors, float scaler,
                uint64_t first, uint64_t n, float* mean) const override {
    TERN_RETURN_IF_ERROR(CheckSum(name(), sum, SumSize(count, contributors), count, first, n));
    if (!std::isfinite(scaler) || scaler < 0) {
      return Status(Code::kMismatch, "ternary scaler is " + std::to_string(scaler) +
                                         ", expected finite and not negative");
    }
    const size_t plane = kernels::PlaneBytes(count);
    for (size_t at = 0; at < sum.size(); at += plane) {
      if (UnusedBitsAreZero(sum.subspan(at, plane), count)) continue;
      return Status(Code::kMismatch, "ternary sum of " + std::to_string(count) +
                                         " elements has a bit set beyond the last of them");
    }
    if (!kernels::DecodeMean(sum.data(), count, contributors, scaler, first, n, mean)) {
      return Status(Code::kMismatch, "ternary sum has an element beyond what " +
                                         std::to_string(contributors) + " workers can add up to");
    }
    return Ok();
  }

 private:
  Options options_;
};

}  // namespace

std::unique_ptr<Codec> MakeTernary(const Options& options) {
  return std::make_unique<Ternary>(options);
}

}  // namespace tern::codec
