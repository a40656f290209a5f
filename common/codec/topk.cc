#include <cmath>
#include <limits>
#include <string>

#include "common/codec/codecs.h"
#include "common/codec/dgc_memory.h"
#include "common/codec/select.h"
#include "common/codec/sparse.h"

namespace tern::codec {
namespace {

// The authors' figures (synxlin/deep-gradient-compression): by how far what is sent may miss the
// ratio before the threshold is adapted, by as much, and how often.
constexpr double kTooMany = 1.3;
constexpr double kTooFew = 0.8;
constexpr int kAdaptations = 10;

uint64_t CountFrom(std::span<const float> values, float threshold) {
  uint64_t count = 0;
  for (float v : values) count += static_cast<uint64_t>(std::abs(v) >= threshold);
  return count;
}

class TopK : public SparseCodec {
 public:
  explicit TopK(const Options::TopK& options)
      : SparseCodec(SparseValues::kFloats), options_(options) {
    for (double ratio = options.warmup_ratio; ratio > options.ratio; ratio *= options.warmup_ratio)
      ++stages_;
  }

  std::string_view name() const override { return "topk"; }
  Prepared Prepare(const kernels::Stats& stats, std::span<const float> values,
                   const kernels::NoiseKey& noise) const override {
    const float threshold = Threshold(values, noise);
    return {stats.max_abs, std::numeric_limits<float>::infinity(), -threshold, threshold};
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey&, std::vector<uint8_t>* out) const override {
    AppendFrom(g, segment.count, prepared.high, out);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<DgcMemory>(count, options_);
  }

 private:
  // The paper's warm-up: from stage to stage the ratio falls by the same factor.
  double RatioAt(uint64_t round) const {
    if (round >= options_.warmup_rounds || stages_ == 0) return options_.ratio;
    double ratio = options_.warmup_ratio;
    for (uint64_t stage = round * stages_ / options_.warmup_rounds; stage > 0; --stage)
      ratio *= options_.warmup_ratio;
    return ratio;
  }
  // The magnitude from which elements are sent, so that about the round's ratio of them is. Equals
  // are sent or stay together.
  float Threshold(std::span<const float> values, const kernels::NoiseKey& noise) const {
    const double ratio = RatioAt(noise.round);
    const uint64_t wanted = ShareOf(ratio, values.size());
    if (wanted == values.size()) return 0;
    const std::vector<float> samples = Sample(values, ratio, noise);
    const float threshold = KthMagnitude(samples, ShareOf(ratio, samples.size()));
    if (samples.size() == values.size()) return threshold;
    return Adapt(values, wanted, threshold);
  }
  // Elements at a stride from a random place on, two at least of what is sent; all of a tensor
  // that has no more. The stride is odd, so that it does not stay in one column of a matrix.
  std::vector<float> Sample(std::span<const float> values, double ratio,
                            const kernels::NoiseKey& noise) const {
    const auto n = static_cast<double>(values.size());
    const double samples = std::ceil(std::max(n * options_.sample_ratio, 2 / ratio));
    uint64_t stride = samples >= n ? 1 : static_cast<uint64_t>(n / samples);
    if (stride % 2 == 0) --stride;
    std::vector<float> sample;
    for (uint64_t i = kernels::Draw32(noise, 0) % stride; i < values.size(); i += stride)
      sample.push_back(values[i]);
    return sample;
  }
  float Adapt(std::span<const float> values, uint64_t wanted, float threshold) const {
    const auto target = static_cast<double>(wanted);
    for (int i = 0; i < kAdaptations; ++i) {
      const auto sent = static_cast<double>(CountFrom(values, threshold));
      if (sent < kTooFew * target) {
        threshold *= static_cast<float>(kTooFew);
      } else if (sent > kTooMany * target) {
        if (options_.resample || threshold == 0) return KthMagnitude(values, wanted);
        threshold *= static_cast<float>(kTooMany);
      } else {
        break;
      }
    }
    return threshold;
  }

  const Options::TopK options_;
  uint64_t stages_ = 0;  // powers of warmup_ratio above the final ratio
};

Status Refuse(const std::string& key, double value, const std::string& expected) {
  return Status(Code::kBadJob,
                "exchange.topk." + key + " is " + std::to_string(value) + ", expected " + expected);
}

}  // namespace

Result<std::unique_ptr<Codec>> MakeTopK(const Options& options) {
  const Options::TopK& o = options.topk;
  if (!(o.ratio > 0 && o.ratio <= 1))
    return Refuse("ratio", o.ratio, "a number above 0 and not above 1 (the paper uses 0.001)");
  if (!(o.sample_ratio > 0 && o.sample_ratio <= 1))
    return Refuse("sample_ratio", o.sample_ratio,
                  "a number above 0 and not above 1 (the paper uses 0.01)");
  if (!(o.warmup_ratio > 0 && o.warmup_ratio < 1))
    return Refuse("warmup_ratio", o.warmup_ratio, "a number between 0 and 1 (the paper uses 0.25)");
  if (!(o.momentum >= 0 && o.momentum < 1))
    return Refuse("momentum", o.momentum, "a number of 0 or above, and below 1");
  if (!(o.clip_norm >= 0) || !std::isfinite(o.clip_norm))
    return Refuse("clip_norm", o.clip_norm, "a finite number of 0 (not clipped) or above");
  return std::unique_ptr<Codec>(std::make_unique<TopK>(o));
}

}  // namespace tern::codec
