// Deep gradient compression (Lin et al. 2018, section 3): the threshold from a sample, its
// adaptation, and the warm-up, in which the share of elements sent falls (docs/ALGORITHMS.md,
// section 17).
#include "common/codec/topk_threshold.h"

#include <algorithm>
#include <cmath>

#include "common/codec/select.h"

namespace tern::codec {
namespace {

// The threshold is adapted if the number of sent elements, divided by the wanted number, is outside
// [kTooFew, kTooMany]. The constants are those of the authors' code
// (synxlin/deep-gradient-compression).
constexpr double kTooMany = 1.3;
constexpr double kTooFew = 0.8;

}  // namespace

TopKThreshold::TopKThreshold(const Options::TopK& options) : options_(options) {
  for (double ratio = options.warmup_ratio; ratio > options.ratio; ratio *= options.warmup_ratio)
    ++num_stages_;
}

// The share of elements to send in a round. In the paper's warm-up the share falls by the same
// factor from stage to stage. The first round is 1.
double TopKThreshold::RatioAt(uint64_t round) const {
  const uint64_t num_done = round - std::min<uint64_t>(round, 1);
  if (num_done >= options_.warmup_rounds || num_stages_ == 0) return options_.ratio;
  double ratio = options_.warmup_ratio;
  for (uint64_t stage = num_done * num_stages_ / options_.warmup_rounds; stage > 0; --stage)
    ratio *= options_.warmup_ratio;
  return ratio;
}

TopKThreshold::SamplePlan TopKThreshold::PlanFor(uint64_t count,
                                                 const kernels::NoiseKey& noise) const {
  const double ratio = RatioAt(noise.round);
  SamplePlan plan;
  plan.num_wanted = ShareOf(ratio, count);
  const auto n = static_cast<double>(count);
  const double min_samples = std::ceil(std::max(n * options_.sample_ratio, 2 / ratio));
  plan.stride = min_samples >= n ? 1 : static_cast<uint64_t>(n / min_samples);
  if (plan.stride % 2 == 0) --plan.stride;
  plan.first = kernels::Draw32(noise, 0) % plan.stride;
  plan.num_samples = (count - plan.first + plan.stride - 1) / plan.stride;
  plan.k = ShareOf(ratio, plan.num_samples);
  plan.is_exact = plan.num_samples == count;
  return plan;
}

TopKThreshold::NextStep TopKThreshold::Adapt(const SamplePlan& plan, uint64_t num_sent,
                                             int num_adaptations, float* threshold) const {
  const auto num_wanted = static_cast<double>(plan.num_wanted);
  const bool is_last = num_adaptations >= kMaxAdaptations;
  if (static_cast<double>(num_sent) < kTooFew * num_wanted) {
    if (is_last) return NextStep::kDone;
    *threshold *= static_cast<float>(kTooFew);
    return NextStep::kCount;
  }
  if (!(static_cast<double>(num_sent) > kTooMany * num_wanted)) return NextStep::kDone;
  if (options_.resample || *threshold == 0) return NextStep::kExact;
  if (is_last) return NextStep::kDone;
  *threshold *= static_cast<float>(kTooMany);
  return NextStep::kCount;
}

}  // namespace tern::codec
