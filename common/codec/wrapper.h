// The base class of a codec that changes the behaviour of another codec, the inner codec. It
// forwards all virtual methods of Codec to the inner codec, except scaler_elements,
// prepares_tensors_together and DecodeInBlocks, which keep the defaults of Codec.
#pragma once

#include <memory>
#include <utility>

#include "common/codec/codec.h"

namespace tern::codec {

class CodecWrapper : public Codec {
 public:
  explicit CodecWrapper(std::unique_ptr<Codec> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  bool shares_scaler() const override { return inner_->shares_scaler(); }
  bool is_stochastic() const override { return inner_->is_stochastic(); }
  uint64_t Granularity(uint64_t column) const override { return inner_->Granularity(column); }
  EncodeParams Prepare(const kernels::Stats& stats, std::span<const float> values,
                       const kernels::NoiseKey& noise) const override {
    return inner_->Prepare(stats, values, noise);
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    inner_->Encode(g, segment, prepared, noise, out);
  }
  size_t MaxEncodedSize(const Segment& segment) const override {
    return inner_->MaxEncodedSize(segment);
  }
  std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                              const RecodeInputs& recode_inputs) const override {
    return inner_->NewAccumulator(segment, workers, recode_inputs);
  }
  size_t MaxSumSize(const Segment& segment, int contributors) const override {
    return inner_->MaxSumSize(segment, contributors);
  }
  Result<size_t> SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                         int contributors) const override {
    return inner_->SumSize(bytes, segment, contributors);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return inner_->NewMemory(count);
  }
  // The memory with which a server encodes sums of the segment again; null if there is none.
  std::unique_ptr<Memory> NewSumMemory(const Segment& segment) const override {
    return inner_->NewSumMemory(segment);
  }
  bool adds_partial_sums() const override { return inner_->adds_partial_sums(); }
  bool SingleCodeIsSum() const override { return inner_->SingleCodeIsSum(); }
  Result<size_t> DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                  float* values) const override {
    return inner_->DecodeSingleCode(code, segment, values);
  }
  Status UpdateMemory(std::span<const uint8_t> code, const Segment& segment,
                      std::span<const float> v, Memory* memory) const override {
    return inner_->UpdateMemory(code, segment, v, memory);
  }
  Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                float scaler, uint64_t first, uint64_t n, float* mean) const override {
    return inner_->Decode(sum, segment, contributors, scaler, first, n, mean);
  }

 protected:
  std::unique_ptr<Codec> inner_;
};

}  // namespace tern::codec
