// Adaptive quantization (Dryden et al. 2016): sends the largest of the positive and of the negative
// elements, a share pi of each; each sign's elements are sent as their mean. Error feedback keeps
// the rest.
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

struct Side {
  float threshold = kInfinity;  // tau: elements of at least this magnitude are sent
  float value = 0;              // mu: the mean of the sent elements
};

// The threshold and mean of the largest `share` of the values with this sign.
Side LargestOf(std::span<const float> values, float sign, double share) {
  uint64_t there = 0;
  for (float v : values) there += static_cast<uint64_t>(sign * v > 0);
  Side side;
  if (there == 0) return side;
  // The value if it has the sign, else 0 (never -0). Branch-free, because signs are unpredictable.
  const auto magnitude = [sign](float v) {
    const auto bits = std::bit_cast<int32_t>(sign * v);
    return std::bit_cast<float>(bits & ~(bits >> 31));
  };
  side.threshold = KthLargest(values, ShareOf(share, there), magnitude);
  double sum = 0;  // summed in the tensor's order
  uint64_t sent = 0;
  for (float v : values) {
    if (sign * v < side.threshold) continue;
    sum += static_cast<double>(sign * v);
    ++sent;
  }
  side.value = static_cast<float>(sum / static_cast<double>(sent));
  return side;
}

class Adaptive : public SparseCodec {
 public:
  explicit Adaptive(double share) : SparseCodec(SparseValues::kPair), share_(share) {}

  std::string_view name() const override { return "adaptive"; }
  Prepared Prepare(const kernels::Stats& stats, std::span<const float> values,
                   const kernels::NoiseKey&) const override {
    const Side high = LargestOf(values, 1, share_);
    const Side low = LargestOf(values, -1, share_);
    // 0 - x, not -x: if nothing is sent the result is 0, not -0.
    return {stats.max_abs, kInfinity, -low.threshold, high.threshold, 0 - low.value, high.value};
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey&, std::vector<uint8_t>* out) const override {
    const auto fill = [&](uint64_t first, std::span<float> x) {
      for (size_t i = 0; i < x.size(); ++i) {
        const float v = g[first + i];
        x[i] = static_cast<float>(v >= prepared.high) * prepared.high_value +
               static_cast<float>(v <= prepared.low) * prepared.low_value;
      }
    };
    AppendSparse({prepared.low_value, prepared.high_value}, segment.count, fill, out);
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
