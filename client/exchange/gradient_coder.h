// Encodes the values that a worker pushes, in the memory where they are: the host's (host_coder.h)
// or a GPU's (worker/device/device_coder.h). Called on the coder thread only (coder.h). A scaler is
// a codec's scale factor; a part is the range of the model that has one scaler.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/protocol/plan/plan.h"
#include "kernels/codes/philox.h"
#include "kernels/codes/stats.h"
#include "setup/setup.h"

namespace tern::client {

class GradientCoder {
 public:
  // The bucket (range of the model) that is pushed in a round. `arena` points at the model's first
  // element in the host's memory; a device ignores `arena` and uses its own arrays.
  struct BucketValues {
    uint64_t round = 0;
    uint32_t bucket = 0;
    const float* arena = nullptr;
  };
  // What Prepare computes for encoding: one element per part of the bucket.
  using BucketParams = std::vector<codec::EncodeParams>;

  // `setup` outlives this object.
  GradientCoder(const setup::Setup& setup, uint32_t rank) : setup_(setup), rank_(rank) {}
  virtual ~GradientCoder() = default;

  // Computes what the codecs need before they encode the bucket: statistics and this worker's
  // scalers. Called as soon as the bucket's gradients are ready. kDiverged for a value that is not
  // finite; PrepareMemoryCodecs and Encode may return this error, too.
  virtual Result<BucketParams> Prepare(const BucketValues& values) = 0;
  // Prepares the parts whose codecs have a memory (state from round to round). Called just before
  // Encode, because encoding the bucket's previous round changes the memory.
  virtual Status PrepareMemoryCodecs(const BucketValues& /*values*/, BucketParams* /*params*/) {
    return Ok();
  }
  // Returns how many values, after clipping, exceed their scaler in `params`. Counts only in the
  // bucket's shared parts: those whose scaler all workers share. `own_scalers`: this worker's
  // scalers of the shared parts.
  virtual Result<uint64_t> CountClamped(const BucketValues& values, const BucketParams& params,
                                        std::span<const float> own_scalers) = 0;
  // Returns the payload of the chunk's push: first `leading_scalers` (scalers that travel with the
  // push), then the chunk's codes. Updates the codecs' memories.
  virtual Result<Bytes> Encode(const BucketValues& values, const protocol::Chunk& chunk,
                               const BucketParams& params,
                               std::span<const float> leading_scalers) = 0;
  // Copies the bucket's values to the host.
  virtual Result<std::vector<float>> CopyToHost(const BucketValues& values) = 0;

  // Clears the codecs' memories.
  virtual Status ClearMemories() = 0;
  // Calls `use` with the codecs' memories, which `use` may change. Returns an error, and does not
  // call `use`, if the memories cannot be fetched.
  virtual Status VisitMemories(const std::function<void(SavedState kept)>& use) = 0;

 protected:
  kernels::NoiseKey NoiseKeyOf(uint64_t round) const;
  // Returns kDiverged, with the tensor's name, unless all values that `stats` describes are finite.
  Status CheckFinite(const kernels::Stats& stats, uint32_t tensor, uint64_t round) const;

  const setup::Setup& setup_;
  const uint32_t rank_;
};

// Overwrites the scalers of those parts of the bucket whose scalers the workers share; `scalers`
// has one for each of these parts.
inline void SetSharedScalers(const protocol::Bucket& bucket, const std::vector<float>& scalers,
                             GradientCoder::BucketParams* params) {
  for (size_t i = 0; i < bucket.shared_parts.size(); ++i)
    (*params)[bucket.shared_parts[i] - bucket.first_part].scaler = scalers[i];
}

}  // namespace tern::client
