// Adaptive quantization (Dryden et al. 2016): sends the given share of the positive elements and
// the same share of the negative ones, those of the largest magnitude. All sent elements of one
// sign are sent as their mean. Error feedback (error_feedback.h) adds what was not sent to the next
// gradient.
#include <bit>
#include <limits>
#include <string>

#include "common/codec/error_feedback.h"
#include "common/codec/makers.h"
#include "common/codec/select.h"
#include "common/codec/sparse.h"

namespace tern::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What is sent of the elements of one sign.
struct SignSelection {
  float threshold = kInfinity;  // Elements of at least this magnitude are sent (tau of the paper).
  float mean = 0;               // The mean magnitude of the sent elements (mu of the paper).
};

// Selects the largest `share` of the values whose sign is `sign` (1 or -1).
SignSelection SelectLargest(std::span<const float> values, float sign, double share) {
  uint64_t num_with_sign = 0;
  for (float v : values) num_with_sign += static_cast<uint64_t>(sign * v > 0);
  SignSelection selection;
  if (num_with_sign == 0) return selection;
  // Returns |v| if v has the sign, else 0 (never -0). Branch-free, because signs are unpredictable.
  const auto magnitude = [sign](float v) {
    const auto bits = std::bit_cast<int32_t>(sign * v);
    return std::bit_cast<float>(bits & ~(bits >> 31));
  };
  selection.threshold = KthLargest(values, ShareOf(share, num_with_sign), magnitude);
  double sum = 0;  // Adds in the order of the elements, so that the rounding is reproducible.
  uint64_t num_sent = 0;
  for (float v : values) {
    if (sign * v < selection.threshold) continue;
    sum += static_cast<double>(sign * v);
    ++num_sent;
  }
  selection.mean = static_cast<float>(sum / static_cast<double>(num_sent));
  return selection;
}

class Adaptive : public SparseCodec {
 public:
  explicit Adaptive(double share) : SparseCodec(SparseValues::kPair), share_(share) {}

  std::string_view name() const override { return "adaptive"; }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float> values,
                       const kernels::NoiseKey&) const override {
    const SignSelection positives = SelectLargest(values, 1, share_);
    const SignSelection negatives = SelectLargest(values, -1, share_);
    // Computes 0 - mean instead of -mean, because a mean of 0 must not become -0.
    return {stats.max_abs,       kInfinity,          -negatives.threshold,
            positives.threshold, 0 - negatives.mean, positives.mean};
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams& params,
              const kernels::NoiseKey&, std::vector<uint8_t>* out) const override {
    const auto fill = [&](uint64_t first, std::span<float> x) {
      for (size_t i = 0; i < x.size(); ++i) {
        const float v = g[first + i];
        x[i] = static_cast<float>(v >= params.high) * params.high_value +
               static_cast<float>(v <= params.low) * params.low_value;
      }
    };
    AppendSparse({params.low_value, params.high_value}, segment.count, fill, out);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<ErrorFeedback>(count);
  }

 private:
  const double share_;
};

}  // namespace

Result<std::unique_ptr<Codec>> MakeAdaptive(const Options& options) {
  const double share = options.keys.adaptive().share();
  if (share > 0 && share <= 1) return std::unique_ptr<Codec>(std::make_unique<Adaptive>(share));
  return Status(Code::kBadJob, "exchange.adaptive.share is " + std::to_string(share) +
                                   ", expected a number above 0 and not above 1");
}

}  // namespace tern::codec
