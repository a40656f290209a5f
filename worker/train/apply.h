// From the sums of a round to the next parameters, in one pass over the model (Algorithm 1, lines 5
// and 6).
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/train/replica.h"

namespace tern::train {

class Apply {
 public:
  // `setup` and `replica` outlive it.
  Apply(const setup::Setup& setup, Replica& replica);

  // The scalers that everybody coded bucket `bucket` with this round.
  void SetScalers(uint32_t bucket, const Bytes& payload);
  void SetSum(uint32_t bucket, uint32_t chunk, Bytes sum) { sums_[bucket][chunk] = std::move(sum); }

  // Decodes every chunk and updates the replica: W(round - 1) -> W(round). kMismatch for a sum that
  // cannot be one.
  Status Run(uint64_t round, float learning_rate);

 private:
  Status RunSegment(const codec::Segment& segment, std::span<const uint8_t> sum, uint64_t round,
                    float learning_rate);

  const setup::Setup& setup_;
  Replica& replica_;
  std::vector<float> scalers_;            // by tensor
  std::vector<float> decay_;              // by tensor, where replicas add it
  std::vector<std::vector<Bytes>> sums_;  // by bucket, chunk
};

}  // namespace tern::train
