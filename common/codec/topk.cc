// Deep gradient compression (Lin et al. 2018): sends the elements of the largest magnitude. A
// memory on the worker (dgc_memory.h) keeps the other elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "common/codec/dgc_memory.h"
#include "common/codec/makers.h"
#include "common/codec/select.h"
#include "common/codec/sparse.h"
#include "common/codec/topk_threshold.h"
#include "kernels/codes/sparse.h"

namespace tern::codec {
namespace {

class TopK : public SparseCodec {
 public:
  explicit TopK(const Options::TopK& options)
      : SparseCodec(SparseValues::kFloats), options_(options), threshold_(options) {}

  std::string_view name() const override { return "topk"; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float> values,
                       const kernels::NoiseKey& noise) const override {
    const float threshold = ChooseThreshold(values, noise);
    return {stats.max_abs, std::numeric_limits<float>::infinity(), -threshold, threshold};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey&, std::vector<uint8_t>* out) const override {
    AppendSparseAtLeast(g, segment.count, prepared.high, out);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<DgcMemory>(count, options_);
  }

 private:
  // Returns the threshold: elements of at least this magnitude are sent.
  float ChooseThreshold(std::span<const float> values, const kernels::NoiseKey& noise) const {
    const TopKThreshold::SamplePlan plan = threshold_.PlanFor(values.size(), noise);
    if (plan.num_wanted == values.size()) return 0;
    std::vector<float> sample;
    for (uint64_t i = plan.first; i < values.size(); i += plan.stride) sample.push_back(values[i]);
    float threshold = KthLargestMagnitude(sample, plan.k);
    for (int i = 0; i <= TopKThreshold::kMaxAdaptations && !plan.is_exact; ++i) {
      const uint64_t count = kernels::CountAtLeast(values.data(), values.size(), threshold);
      const auto next_step = threshold_.Adapt(plan, count, i, &threshold);
      if (next_step == TopKThreshold::NextStep::kExact)
        return KthLargestMagnitudeFrom(values, plan.num_wanted, threshold, count);
      if (next_step == TopKThreshold::NextStep::kDone) break;
    }
    return threshold;
  }

  const Options::TopK options_;
  const TopKThreshold threshold_;
};

Status BadValueError(const std::string& key, double value, const std::string& expected) {
  return Status(Code::kBadJob,
                "exchange.topk." + key + " is " + std::to_string(value) + ", expected " + expected);
}

}  // namespace

Result<std::unique_ptr<Codec>> MakeTopK(const Options& options) {
  const Options::TopK& topk = options.topk;
  if (!(topk.ratio > 0 && topk.ratio <= 1))
    return BadValueError("ratio", topk.ratio,
                         "a number above 0 and not above 1 (the paper uses 0.001)");
  if (!(topk.sample_ratio > 0 && topk.sample_ratio <= 1))
    return BadValueError("sample_ratio", topk.sample_ratio,
                         "a number above 0 and not above 1 (the paper uses 0.01)");
  if (!(topk.warmup_ratio > 0 && topk.warmup_ratio < 1))
    return BadValueError("warmup_ratio", topk.warmup_ratio,
                         "a number between 0 and 1 (the paper uses 0.25)");
  if (!(topk.momentum >= 0 && topk.momentum < 1))
    return BadValueError("momentum", topk.momentum, "a number of at least 0, below 1");
  if (!(topk.clip_norm >= 0) || !std::isfinite(topk.clip_norm))
    return BadValueError("clip_norm", topk.clip_norm,
                         "a finite number of at least 0 (0: no clipping)");
  return std::unique_ptr<Codec>(std::make_unique<TopK>(topk));
}

}  // namespace tern::codec
