#include <algorithm>
#include <array>
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

// The size of the code at the front of `bytes`.
Result<size_t> CheckScaled(std::span<const uint8_t> bytes, uint64_t count) {
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
  Result<MaskSigns> code = ParseMaskSigns(bytes.subspan(kScalerBytes), count);
  if (!code.ok()) return code.status();
  return kScalerBytes + code->size();
}

// kDeposit[mask][bits]: the low bits of `bits`, one for each 1 of `mask` and in order, at its
// place.
constexpr auto kDeposit = [] {
  std::array<std::array<uint8_t, 16>, 16> table{};
  for (unsigned mask = 0; mask < 16; ++mask) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      unsigned next = 0;
      for (unsigned i = 0; i < 4; ++i) {
        if ((mask >> i & 1) != 0) table[mask][bits] |= (bits >> next++ & 1) << i;
      }
    }
  }
  return table;
}();

// Without branches on the codes, which nothing can predict.
void AddScaled(std::span<const uint8_t> part, uint64_t count, float* sum) {
  const float scaler = ReadScaler(part);
  const std::span<const uint8_t> mask = part.subspan(kScalerBytes, kernels::PlaneBytes(count));
  const std::span<const uint8_t> signs = part.subspan(kScalerBytes + mask.size());
  const auto sign_byte = [&](size_t i) { return i < signs.size() ? unsigned{signs[i]} : 0; };
  size_t one = 0;
  for (size_t byte = 0; byte < mask.size(); ++byte) {
    const unsigned m = mask[byte];
    const unsigned low = std::popcount(m & 15);
    const unsigned bits = (sign_byte(one / 8) | sign_byte(one / 8 + 1) << 8) >> (one % 8);
    const unsigned negative = kDeposit[m & 15][bits & 15] | kDeposit[m >> 4][bits >> low & 15] << 4;
    one += std::popcount(m);
    const size_t n = std::min<size_t>(8, count - 8 * byte);
    for (size_t i = 0; i < n; ++i) {
      const int sign = static_cast<int>(m >> i & 1) - 2 * static_cast<int>(negative >> i & 1);
      sum[8 * byte + i] += static_cast<float>(sign) * scaler;
    }
  }
}

class ScaledSum : public RankOrderedSum {
 public:
  using RankOrderedSum::RankOrderedSum;

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    return CheckScaled(bytes, count());
  }
  void AddTo(std::span<const uint8_t> part, float* sum) const override {
    AddScaled(part, count(), sum);
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
  Result<size_t> DecodeAlone(std::span<const uint8_t> code, uint64_t count,
                             float* values) const override {
    Result<size_t> size = CheckScaled(code, count);
    if (!size.ok()) return size;
    std::fill_n(values, count, 0.f);
    AddScaled(code.first(*size), count, values);
    return size;
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
