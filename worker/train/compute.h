// What computes gradients: the net, or, where a job asks for it, a calibrated wait.
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
  // The mean loss of the batch at the parameters that this was made for. `need` as engine::Net's;
  // where it ends the pass, no Backward may follow.
  virtual double Forward(const data::Batch& batch, const engine::Need& need) = 0;
  // Its gradient, into the arena that this was made for. `ready(t)` as tensor t is final, from the
  // last to the first. REQUIRES a Forward just before and the parameters unchanged since.
  virtual void Backward(const std::function<void(uint32_t tensor)>& ready) = 0;
  // Whether batches are wanted as bytes, and what their memory is pinned with (null: nothing), as
  // long as this lives.
  virtual bool TakesBytes() const { return false; }
  virtual data::Pin PinOfBytes() const { return nullptr; }
  // What comes after the batch that Forward is given next, so that it is fetched meanwhile; null:
  // not known yet. It stays as it is until the Forward of it has returned, or LetGo.
  virtual void Expect(const data::Batch* /*next*/) {}
  virtual void LetGo() {}
  // As engine::Net's.
  virtual Status status() const { return Ok(); }
};

// What the job says for the rank whose own it is (config::ForRank).
engine::Device DeviceOf(const pb::Job& job);
engine::Precision PrecisionOf(const pb::Train& train);

// For a net that takes the batch as it is.
engine::Net::Feed FeedOf(const data::Batch& batch);

// Forward and backward of the net; of one net a batch size, made when it is first needed. The
// arenas outlive it. With `pixels`, batches come as bytes where the rank has a GPU; else as floats.
// Threads: as engine::Net.
Result<std::unique_ptr<Compute>> MakeNetCompute(
    const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas,
    const std::optional<kernels::PixelRule>& pixels = std::nullopt);
// train.compute: wait. A step takes train.compute_wait_ms (longer while this worker is slow), a
// third of it in Forward; a tensor is needed, and its gradient is ready, when its share of the time
// has passed. What `need` takes comes on top.
// Gradients are Gaussian noise, other for each worker and the same every step. `train`, of this
// rank's job, outlives it.
std::unique_ptr<Compute> MakeWaitCompute(const setup::Setup& setup, const pb::Train& train,
                                         uint32_t rank, float* gradients);

}  // namespace tern::train
