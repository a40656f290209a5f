// Encodes values in the host's memory. A part is a range of the model with one scale factor. A
// codec's memory is its state from round to round, which it adds to the values.
#pragma once

#include <memory>
#include <vector>

#include "client/exchange/gradient_coder.h"
#include "common/base/floats.h"

namespace tern::client {

class HostCoder : public GradientCoder {
 public:
  HostCoder(const setup::Setup& setup, uint32_t rank);

  Result<Prepared> Prepare(const Values& values) override;
  Status PrepareMemoryCodecs(const Values& values, Prepared* prepared) override;
  Result<uint64_t> CountClamped(const Values& values, const Prepared& prepared,
                                std::span<const float> own_scalers) override;
  Result<Bytes> Encode(const Values& values, const protocol::Chunk& chunk, const Prepared& prepared,
                       std::span<const float> leading_scalers) override;
  Result<std::vector<float>> Copy(const Values& values) override;
  Status Forget() override;
  Status VisitMemories(const std::function<void(SavedState)>& use) override;

 private:
  // Returns the values to encode for a part: the values in the arena (the array of all parameters),
  // or their sum with the codec's memory.
  std::span<const float> ValuesToEncode(const float* arena, const protocol::Part& part) const;
  Status PreparePart(const Values& values, const protocol::Part& part, codec::Prepared* prepared);
  // Prepares the tensors whose codec prepares all its tensors together (Codec::prepares_model).
  void PrepareTogether(const Values& values, Prepared* prepared);
  void EncodeSegment(const Values& values, const codec::Segment& segment,
                     const codec::Prepared& prepared, std::vector<uint8_t>* codes);

  std::vector<std::unique_ptr<codec::Memory>> memories_;  // by tensor; null: none
  // The values plus the memories, as long as the model; empty without memories.
  Floats compensated_values_;
  Floats decoded_values_;  // the values to which the codes of one segment decode
  Floats joint_values_;    // the values of all tensors that are prepared together
};

}  // namespace tern::client
