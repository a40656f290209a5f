// Deep gradient compression (Lin et al. 2018): selects by magnitude; dgc_memory.h keeps the rest.
#include <cmath>
#include <limits>
#include <string>

#include "common/codec/dgc_memory.h"
#include "common/codec/makers.h"
#include "common/codec/select.h"
#include "common/codec/sparse.h"
#include "common/codec/topk_threshold.h"

namespace tern::codec {
namespace {

uint64_t CountFrom(std::span<const float> values, float threshold) {
  uint64_t count = 0;
  for (float v : values) count += static_cast<uint64_t>(std::abs(v) >= threshold);
  return count;
}

class TopK : public SparseCodec {
 public:
  explicit TopK(const Options::TopK& options)
      : SparseCodec(SparseValues::kFloats), options_(options), threshold_(options) {}

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
  float Threshold(std::span<const float> values, const kernels::NoiseKey& noise) const {
    const TopKThreshold::SamplePlan plan = threshold_.PlanFor(values.size(), noise);
    if (plan.wanted == values.size()) return 0;
    std::vector<float> sample;
    for (uint64_t i = plan.first; i < values.size(); i += plan.stride) sample.push_back(values[i]);
    float threshold = KthMagnitude(sample, plan.k);
    for (int i = 0; i < TopKThreshold::kAdaptations && !plan.exact; ++i) {
      const auto next = threshold_.Adapt(plan, CountFrom(values, threshold), &threshold);
      if (next == TopKThreshold::Next::kExact) return KthMagnitude(values, plan.wanted);
      if (next == TopKThreshold::Next::kDone) break;
    }
    return threshold;
  }

  const Options::TopK options_;
  const TopKThreshold threshold_;
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
    return Refuse("momentum", o.momentum, "a number of at least 0, below 1");
  if (!(o.clip_norm >= 0) || !std::isfinite(o.clip_norm))
    return Refuse("clip_norm", o.clip_norm, "a finite number of at least 0 (0: no clipping)");
  return std::unique_ptr<Codec>(std::make_unique<TopK>(o));
}

}  // namespace tern::codec
