// Computes gradients: with the net, or, if a job asks for it, by waiting for a calibrated time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/data/prefetcher.h"
#include "worker/engine/net.h"

namespace tern::train {

class Compute {
 public:
  virtual ~Compute() = default;
  // Returns the mean loss of the batch, at the parameters passed to the constructor. `need` as in
  // engine::Net; if it ends the pass, Backward must not be called.
  virtual double Forward(const data::Batch& batch, const engine::Need& need) = 0;
  // Computes the gradient, into the arena passed to the constructor. Calls `ready(t)` when tensor t
  // is final, from the last to the first. REQUIRES a Forward just before and the parameters
  // unchanged since.
  virtual void Backward(const std::function<void(uint32_t tensor)>& ready) = 0;
  // Whether it takes batches as bytes, and how to pin their memory (null: not needed); the latter
  // is valid as long as this lives.
  virtual bool TakesBytes() const { return false; }
  virtual data::Pin PinOfBytes() const { return nullptr; }
  // Announces the batch after the one that Forward gets next, so that it is fetched meanwhile;
  // null: not known yet. It must not change until the Forward that gets it has returned, or until
  // LetGo.
  virtual void Expect(const data::Batch* /*next*/) {}
  virtual void LetGo() {}
  // As in engine::Net.
  virtual Status status() const { return Ok(); }
};

// The job's settings for this rank. REQUIRES the rank's own job (config::ForRank).
engine::Device DeviceOf(const pb::Job& job);
engine::Precision PrecisionOf(const pb::Train& train);

// For a net that takes the batch in its form, floats or bytes.
engine::Net::Feed FeedOf(const data::Batch& batch);

// Forward and backward of the net; there is one net per batch size, made on first use. The arenas
// outlive it. With `pixels`, batches are bytes if the rank has a GPU; else floats. Threads: as in
// engine::Net.
Result<std::unique_ptr<Compute>> MakeNetCompute(
    const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas,
    const std::optional<kernels::PixelRule>& pixels = std::nullopt);
// train.compute: wait. A step takes train.compute_wait_ms (longer while this worker is made slow),
// a third of it in Forward; a tensor is needed, and its gradient is ready, after its share of the
// time. Time spent in `need` is added. Gradients are Gaussian noise, different for each worker and
// the same in every step. `train`, of this rank's job, outlives it.
std::unique_ptr<Compute> MakeWaitCompute(const setup::Setup& setup, const pb::Train& train,
                                         uint32_t rank, float* gradients);

}  // namespace tern::train
