#include "common/codec/error_feedback.h"

#include <string>
#include <utility>

namespace tern::codec {

namespace {

// The codec within, but for what a worker keeps.
class Fed : public Codec {
 public:
  explicit Fed(std::unique_ptr<Codec> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  bool shares_scaler() const override { return inner_->shares_scaler(); }
  uint64_t Granularity(uint64_t column) const override { return inner_->Granularity(column); }
  Prepared Prepare(const kernels::Stats& stats, std::span<const float> values,
                   const kernels::NoiseKey& noise) const override {
    return inner_->Prepare(stats, values, noise);
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    inner_->Encode(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return inner_->MaxEncodedSize(segment);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const Recode& recode) const override {
    return inner_->NewAccumulator(segment, workers, recode);
  }
  size_t MaxSumSize(const Segment& segment, int contributors) const override {
    return inner_->MaxSumSize(segment, contributors);
  }
  Result<size_t> SumPart(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override {
    return inner_->SumPart(bytes, segment, contributors);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<ErrorFeedback>(count);
  }
  std::unique_ptr<Memory> NewSumMemory(const Segment& segment) const override {
    return inner_->NewSumMemory(segment);
  }
  bool CodeIsSum() const override { return inner_->CodeIsSum(); }
  Result<size_t> DecodeAlone(std::span<const uint8_t> code, const Segment& segment,
                             float* values) const override {
    return inner_->DecodeAlone(code, segment, values);
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override {
    return inner_->Decode(sum, segment, contributors, scaler, first, n, mean);
  }

 private:
  std::unique_ptr<Codec> inner_;
};

}  // namespace

void ErrorFeedback::Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) {
  for (size_t i = 0; i < g.size(); ++i) v[i] = g[i] + residual_[begin + i];
}

void ErrorFeedback::Keep(uint64_t begin, std::span<const float> v, std::span<const float> sent) {
  for (size_t i = 0; i < v.size(); ++i) residual_[begin + i] = v[i] - sent[i];
}

Result<std::unique_ptr<Codec>> WithErrorFeedback(std::unique_ptr<Codec> inner) {
  if (inner->NewMemory(1) != nullptr) return inner;  // it has its own
  if (inner->stochastic()) {
    return Status(Code::kBadJob,
                  "exchange.error_feedback is true, but the codes of " +
                      std::string(inner->name()) +
                      " are drawn without bias: what one leaves out is noise, which must not be "
                      "added to the next; leave the key out, or choose a codec that rounds");
  }
  return std::unique_ptr<Codec>(std::make_unique<Fed>(std::move(inner)));
}

}  // namespace tern::codec
