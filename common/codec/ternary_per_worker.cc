#include <bit>
#include <cmath>
#include <string>

#include "common/codec/clip.h"
#include "common/codec/codecs.h"
#include "common/codec/float_sum.h"
#include "common/codec/mask_signs.h"
#include "kernels/ternary.h"

namespace tern::codec {
namespace {

constexpr size_t kScalerBytes = sizeof(float);

float ReadScaler(std::span<const uint8_t> bytes) {
  float scaler = 0;
  ReadFloats(bytes, {&scaler, 1});
  return scaler;
}

class ScaledSum : public RankOrderedSum {
 public:
  using RankOrderedSum::RankOrderedSum;

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    if (bytes.size() < kScalerBytes) {
      return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(bytes.size()) +
                                         " bytes, expected a scaler of " +
                                         std::to_string(kScalerBytes));
    }
    const float scaler = ReadScaler(bytes);
    if (!std::isfinite(scaler) || std::signbit(scaler)) {
      return Status(Code::kMismatch, "ternary scaler is " + std::to_string(scaler) +
                                         ", expected finite and not negative");
    }
    Result<MaskSigns> code = ParseMaskSigns(bytes.subspan(kScalerBytes), count());
    if (!code.ok()) return code.status();
    return kScalerBytes + code->size();
  }
  void AddTo(std::span<const uint8_t> part, float* sum) const override {
    const float scaler = ReadScaler(part);
    const std::span<const uint8_t> mask = part.subspan(kScalerBytes, kernels::PlaneBytes(count()));
    const std::span<const uint8_t> signs = part.subspan(kScalerBytes + mask.size());
    size_t one = 0;
    for (size_t byte = 0; byte < mask.size(); ++byte) {
      for (unsigned rest = mask[byte]; rest != 0; rest &= rest - 1, ++one) {
        const bool negative = (signs[one / 8] >> (one % 8) & 1) != 0;
        sum[8 * byte + std::countr_zero(rest)] += negative ? -scaler : scaler;
      }
    }
  }
};

class TernaryPerWorker : public Codec {
 public:
  explicit TernaryPerWorker(const Options& options) : options_(options) {}

  std::string_view name() const override { return "ternary_per_worker"; }
  bool stochastic() const override { return true; }
  Prepared Prepare(const kernels::Stats& stats, size_t n) const override {
    return PrepareTernary(stats, n, options_);
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    AppendFloats({&prepared.scaler, 1}, out);
    AppendMaskSigns(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(uint64_t count) const override {
    return kScalerBytes + 2 * kernels::PlaneBytes(count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(uint64_t count, int workers) const override {
    return std::make_unique<ScaledSum>(count, workers);
  }
  size_t SumSize(uint64_t count, int) const override { return 4 * count; }
  Status Decode(std::span<const uint8_t> sum, uint64_t count, int, float, uint64_t first,
                uint64_t n, float* mean) const override {
    return DecodeFloatMean(name(), sum, count, first, n, mean);
  }

 private:
  Options options_;
};

}  // namespace

std::unique_ptr<Codec> MakeTernaryPerWorker(const Options& options) {
  return std::make_unique<TernaryPerWorker>(options);
}

}  // namespace tern::codec
