// Where the values that a worker pushes lie, and their codes: a host's memory (host_coder.h) or a
// GPU's (worker/device/device_coder.h). Threads: the coder thread, once there is one.
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
  // A bucket that is pushed in a round. `arena` points at the model's first element on a host; a
  // device knows where its own are.
  struct Values {
    uint64_t round = 0;
    uint32_t bucket = 0;
    const float* arena = nullptr;
  };
  // By part of the bucket.
  using Prepared = std::vector<codec::Prepared>;

  // `setup` outlives it.
  GradientCoder(const setup::Setup& setup, uint32_t rank) : setup_(setup), rank_(rank) {}
  virtual ~GradientCoder() = default;

  // Prepares the parts of a bucket as its gradients become ready. kDiverged names a tensor that has
  // a value that is not finite; so do the calls below.
  virtual Result<Prepared> Prepare(const Values& values) = 0;
  // Prepares the parts whose codecs have a memory, just before they are coded: only then is it
  // known what an earlier round of the bucket left out.
  virtual Status PrepareKept(const Values& /*values*/, Prepared* /*prepared*/) { return Ok(); }
  // Counts the values of the bucket's shared parts that exceed their scaler in `prepared`. `own`:
  // this worker's own scalers of those parts.
  virtual Result<uint64_t> CountClamped(const Values& values, const Prepared& prepared,
                                        std::span<const float> own) = 0;
  // The chunk's payload: `before`, then its codes. Updates the codecs' memories.
  virtual Result<Bytes> Encode(const Values& values, const protocol::Chunk& chunk,
                               const Prepared& prepared, std::span<const float> before) = 0;
  // A copy of the bucket's values.
  virtual Result<std::vector<float>> Copy(const Values& values) = 0;

  // Clears the codecs' memories.
  virtual Status Forget() = 0;
  // Calls `use` with the codecs' memories, which it may change. If they cannot be fetched, `use` is
  // not called.
  virtual Status WithKept(const std::function<void(SavedState kept)>& use) = 0;

 protected:
  kernels::NoiseKey NoiseOf(uint64_t round) const;
  // kDiverged, with the tensor's name, unless the values of `stats` are finite.
  Status Finite(const kernels::Stats& stats, uint32_t tensor, uint64_t round) const;

  const setup::Setup& setup_;
  const uint32_t rank_;
};

// Whether any codec of the job has a memory.
bool KeepsSomething(const setup::Setup& setup);

}  // namespace tern::client
