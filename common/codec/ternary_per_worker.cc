// TernGrad (Wen et al. 2017, Algorithm 1) without scaler sharing: every worker has its own scaler,
// and the server adds floats. clip.h defines how a worker computes the scaler.
#include <algorithm>
#include <cmath>
#include <string>

#include "common/codec/clip.h"
#include "common/codec/float_sum.h"
#include "common/codec/integer_wire.h"
#include "common/codec/makers.h"
#include "common/codec/mask_signs.h"

namespace tern::codec {
namespace {

constexpr size_t kScalerBytes = sizeof(float);

float ReadScaler(std::span<const uint8_t> bytes) {
  float scaler = 0;
  ReadFloats(bytes, {&scaler, 1});
  return scaler;
}

// A code as received: the scaler, then the code in the byte format of a IntegerWire.
struct ScaledCode {
  float scaler;
  ParsedCode code;
  size_t size;  // the size in bytes of scaler and code together
};

Result<ScaledCode> ParseScaledCode(const IntegerWire& wire, std::span<const uint8_t> bytes,
                                   uint64_t count, Scratch* scratch) {
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
  Result<ParsedCode> code = wire.Parse(bytes.subspan(kScalerBytes), count, scratch);
  if (!code.ok()) return code.status();
  return ScaledCode{scaler, *code, kScalerBytes + code->size};
}

// Adds each element's code (-1, 0 or +1), times the scaler, to the element of `sum`. Branch-free,
// because the processor cannot predict codes.
void AddScaled(const ScaledCode& scaled_code, uint64_t count, float* sum) {
  const std::span<const uint8_t> mask = scaled_code.code.low_planes;
  const std::span<const uint8_t> sign_plane = scaled_code.code.sign_plane;
  for (size_t byte = 0; byte < mask.size(); ++byte) {
    const size_t n = std::min<size_t>(8, count - 8 * byte);
    for (size_t i = 0; i < n; ++i) {
      const int sign = (mask[byte] >> i & 1) - 2 * ((mask[byte] & sign_plane[byte]) >> i & 1);
      sum[8 * byte + i] += static_cast<float>(sign) * scaled_code.scaler;
    }
  }
}

// Adds the codes of the workers as floats, each times the scaler of its worker.
class ScaledSum : public RankOrderedSum {
 public:
  ScaledSum(const IntegerWire& wire, uint64_t count, int workers)
      : RankOrderedSum(count, workers), wire_(wire) {}

 protected:
  Result<size_t> Check(std::span<const uint8_t> bytes) const override {
    Scratch scratch;
    Result<ScaledCode> scaled_code = ParseScaledCode(wire_, bytes, count(), &scratch);
    if (!scaled_code.ok()) return scaled_code.status();
    return scaled_code->size;
  }
  void AddTo(std::span<const uint8_t> code, float* sum) const override {
    Scratch scratch;
    AddScaled(*ParseScaledCode(wire_, code, count(), &scratch), count(), sum);
  }

 private:
  const IntegerWire& wire_;
};

class TernaryPerWorker : public Codec {
 public:
  TernaryPerWorker(const IntegerWire& wire, const Options& options)
      : wire_(wire), name_(std::string(wire.name()) + "_per_worker"), options_(options) {}

  std::string_view name() const override { return name_; }
  bool is_stochastic() const override { return true; }
  uint64_t scaler_elements() const override { return options_.scaler_elements; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    // A code stands for at most its own scaler.
    EncodeParams params = PrepareScaler(stats, options_);
    params.clip = std::min(params.clip, params.scaler);
    return params;
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    AppendFloats({&prepared.scaler, 1}, out);
    wire_.Encode(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return kScalerBytes + wire_.MaxCodeSize(segment.count);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs&) const override {
    return std::make_unique<ScaledSum>(wire_, segment.count, workers);
  }
  Result<size_t> DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                  float* values) const override {
    Scratch scratch;
    Result<ScaledCode> scaled_code = ParseScaledCode(wire_, code, segment.count, &scratch);
    if (!scaled_code.ok()) return scaled_code.status();
    std::fill_n(values, segment.count, 0.f);
    AddScaled(*scaled_code, segment.count, values);
    return scaled_code->size;
  }
  size_t MaxSumSize(const Segment& segment, int) const override { return 4 * segment.count; }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int, float, uint64_t first,
                uint64_t n, float* mean) const override {
    return DecodeFloatMean(name(), sum, segment.count, first, n, mean);
  }

 private:
  const IntegerWire& wire_;
  std::string name_;
  Options options_;
};

}  // namespace

std::unique_ptr<Codec> MakeTernaryPerWorker(const Options& options, const IntegerWire& wire) {
  return std::make_unique<TernaryPerWorker>(wire, options);
}

}  // namespace tern::codec
