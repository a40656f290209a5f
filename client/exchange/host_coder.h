// Encodes values in the host's memory. A part is a range of the model with one scale factor. A
// codec's memory is its state from round to round, which is added to the values.
#pragma once

#include <memory>
#include <vector>

#include "client/exchange/gradient_coder.h"
#include "common/base/floats.h"

namespace tern::client {

class HostCoder : public GradientCoder {
 public:
  HostCoder(const setup::Setup& setup, uint32_t rank);

  Result<BucketParams> Prepare(const BucketValues& values) override;
  Status PrepareMemoryCodecs(const BucketValues& values, BucketParams* params) override;
  Result<uint64_t> CountClamped(const BucketValues& values, const BucketParams& params,
                                std::span<const float> own_scalers) override;
  Result<Bytes> Encode(const BucketValues& values, const protocol::Chunk& chunk,
                       const BucketParams& params, std::span<const float> leading_scalers) override;
  Result<std::vector<float>> CopyToHost(const BucketValues& values) override;
  Status ClearMemories() override;
  Status VisitMemories(const std::function<void(SavedState)>& use) override;

 private:
  // Returns the values to encode for a part: the values in `arena` (an array as long as the model),
  // or their sum with the codec's memory.
  std::span<const float> ValuesToEncode(const float* arena, const protocol::Part& part) const;
  Status PreparePart(const BucketValues& values, const protocol::Part& part,
                     codec::EncodeParams* params);
  // Prepares the tensors whose codec prepares all its tensors together
  // (Codec::prepares_tensors_together).
  void PrepareTogether(const BucketValues& values, BucketParams* params);
  void EncodeSegment(const BucketValues& values, const codec::Segment& segment,
                     const codec::EncodeParams& params, std::vector<uint8_t>* codes);

  std::vector<std::unique_ptr<codec::Memory>> memories_;  // by tensor; null if its codec has none
  // An array as long as the model: the values plus the memories. Empty without memories.
  Floats compensated_values_;
  Floats decoded_values_;  // what the codes of one segment (range of a tensor) decode to
  Floats joint_values_;    // the values of all tensors that are prepared together
};

}  // namespace tern::client
