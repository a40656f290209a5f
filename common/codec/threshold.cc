// Two codecs with error feedback: threshold quantization (Strom 2015), which is also MXNet's
// two-bit compression (docs/ALGORITHMS.md, section 16); and gradient dropping (Aji and Heafield
// 2017).
#include <cmath>
#include <limits>
#include <string>

#include "common/codec/error_feedback.h"
#include "common/codec/makers.h"
#include "common/codec/select.h"
#include "common/codec/sparse.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

// Sends +t for v >= t, -t for v <= -t, and nothing for other values v. Codes and sums have the
// bytes of the codec ternary with the scaler t, which is not sent, because every process reads it
// in the job.
class Threshold : public Codec {
 public:
  Threshold(float threshold, std::unique_ptr<Codec> ternary)
      : threshold_(threshold), ternary_(std::move(ternary)) {}

  std::string_view name() const override { return "threshold"; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float>,
                       const kernels::NoiseKey&) const override {
    const float infinity = std::numeric_limits<float>::infinity();
    return {stats.max_abs, infinity, -threshold_, threshold_, -threshold_, threshold_};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams&, const kernels::NoiseKey&,
              std::vector<uint8_t>* out) const override {
    const size_t begin = out->size(), plane_bytes = kernels::PlaneBytes(segment.count);
    out->resize(begin + 2 * plane_bytes);
    uint8_t* mask = out->data() + begin;
    uint8_t* signs = mask + plane_bytes;
    size_t num_sent = 0;
    for (size_t i = 0; i < segment.count; ++i) {
      const unsigned is_sent = std::abs(g[i]) >= threshold_ ? 1 : 0;
      const unsigned is_negative = g[i] <= -threshold_ ? 1 : 0;
      mask[i / 8] |= static_cast<uint8_t>(is_sent << (i % 8));
      signs[num_sent / 8] |= static_cast<uint8_t>(is_negative << (num_sent % 8));
      num_sent += is_sent;
    }
    out->resize(begin + plane_bytes + kernels::PlaneBytes(num_sent));
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return ternary_->MaxEncodedSize(segment);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs& recode_inputs) const override {
    return ternary_->NewAccumulator(segment, workers, recode_inputs);
  }
  size_t MaxSumSize(const Segment& segment, int contributors) const override {
    return ternary_->MaxSumSize(segment, contributors);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<ErrorFeedback>(count);
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors, float,
                uint64_t first, uint64_t n, float* mean) const override {
    return ternary_->Decode(sum, segment, contributors, threshold_, first, n, mean)
        .Within("threshold");
  }

 private:
  const float threshold_;
  std::unique_ptr<Codec> ternary_;
};

// Sends the elements of the largest magnitude as floats: a share of each tensor or, if is_global, a
// share of all tensors together.
class ThresholdRatio : public SparseCodec {
 public:
  ThresholdRatio(double ratio, bool is_global)
      : SparseCodec(SparseValues::kFloats), ratio_(ratio), is_global_(is_global) {}

  std::string_view name() const override {
    return is_global_ ? "threshold_ratio_global" : "threshold_ratio";
  }
  bool prepares_tensors_together() const override { return is_global_; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float> values,
                       const kernels::NoiseKey&) const override {
    const uint64_t num_wanted = ShareOf(ratio_, values.size());
    const float threshold =
        num_wanted < values.size() ? KthLargestMagnitude(values, num_wanted) : 0;
    return {stats.max_abs, std::numeric_limits<float>::infinity(), -threshold, threshold};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey&, std::vector<uint8_t>* out) const override {
    AppendSparseAtLeast(g, segment.count, prepared.high, out);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<ErrorFeedback>(count);
  }

 private:
  const double ratio_;
  const bool is_global_;
};

}  // namespace

Result<std::unique_ptr<Codec>> MakeThreshold(const Options& options) {
  const pb::Threshold& keys = options.keys.threshold();
  const bool is_global = keys.scope() == pb::Threshold::global;
  if (!(keys.ratio() >= 0 && keys.ratio() <= 1)) {
    return Status(Code::kBadJob, "exchange.threshold.ratio is " + std::to_string(keys.ratio()) +
                                     ", expected a number above 0 and not above 1, or 0 for a "
                                     "fixed exchange.threshold.value");
  }
  if (keys.ratio() > 0) {
    return std::unique_ptr<Codec>(std::make_unique<ThresholdRatio>(keys.ratio(), is_global));
  }
  if (is_global) {
    return Status(Code::kBadJob,
                  "exchange.threshold.scope is global without a share, expected "
                  "exchange.threshold.ratio above 0 with it");
  }
  const auto fixed_threshold = static_cast<float>(keys.value());
  if (!(fixed_threshold > 0) || !std::isfinite(fixed_threshold)) {
    return Status(Code::kBadJob, "exchange.threshold.value is " + std::to_string(keys.value()) +
                                     ", expected a finite number above 0");
  }
  return std::unique_ptr<Codec>(
      std::make_unique<Threshold>(fixed_threshold, MakeIntegerCodec(options, MaskSignsWire())));
}

}  // namespace tern::codec
