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
  // `sources`: where the values of each tensor are, in place of the arena of BucketValues; null: in
  // the arena. It outlives this object, and the values of a bucket must not change from its push
  // until it is encoded.
  HostCoder(const setup::Setup& setup, uint32_t rank,
            const std::vector<const float*>* sources = nullptr);

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
  // The first value of a tensor that is pushed.
  const float* PushedValues(const float* arena, uint32_t tensor) const {
    return sources_ != nullptr ? (*sources_)[tensor] : arena + setup_.plan.tensor_begin[tensor];
  }
  // Returns the values to encode for a part: those pushed, their sum with the codec's memory, or
  // the pushed values rotated, if the part's codec rotates. REQUIRES, in the last case, that the
  // bucket of `values` is the last one that RotateBucket was called for with this bucket index.
  std::span<const float> ValuesToEncode(const BucketValues& values,
                                        const protocol::Part& part) const;
  // Rotates the pushed values of those parts whose codec rotates.
  void RotateBucket(const BucketValues& values);
  // Rotates again, if the bucket has been rotated for another round since.
  void EnsureRotated(const BucketValues& values);
  Status PreparePart(const BucketValues& values, const protocol::Part& part,
                     codec::EncodeParams* params);
  // Prepares the tensors whose codec prepares all its tensors together
  // (Codec::prepares_tensors_together).
  void PrepareTogether(const BucketValues& values, BucketParams* params);
  void EncodeSegment(const BucketValues& values, const codec::Segment& segment,
                     const codec::EncodeParams& params, std::vector<uint8_t>* codes);

  const std::vector<const float*>* const sources_;
  std::vector<std::unique_ptr<codec::Memory>> memories_;  // by tensor; null if its codec has none
  // An array as long as the model: the values plus the memories. Empty without memories.
  Floats compensated_values_;
  // By tensor: the values that its memory gave to encode, in compensated_values_ or in the memory.
  std::vector<const float*> values_of_memory_;
  // An array as long as the model: the rotated values. Empty if no codec rotates.
  Floats rotated_values_;
  // By bucket: the round whose values are in rotated_values_. With two rounds in progress, the next
  // round's values may replace those of a bucket that still waits for its scalers.
  std::vector<uint64_t> rotated_round_;
  Floats joint_values_;  // the values of all tensors that are prepared together
};

}  // namespace tern::client
