// Computes gradients of batches: with the net (net_compute.h), or, if a job asks for it, by waiting
// for a calibrated time (wait_compute.h).
#pragma once

#include <functional>

#include "common/base/status.h"
#include "worker/data/prefetcher.h"
#include "worker/engine/net.h"

namespace tern::worker {

class BatchCompute {
 public:
  virtual ~BatchCompute() = default;
  // Returns the mean loss of the batch, at the parameters passed to the constructor. `need`
  // is called before a parameter is read (engine::Need); if it ends the pass by returning false,
  // Backward must not be called.
  virtual double Forward(const data::Batch& batch, const engine::Need& need) = 0;
  // Computes the gradient, into the arena passed to the constructor. Calls `ready(t)` when tensor t
  // is final, from the last to the first. REQUIRES a Forward just before and the parameters
  // unchanged since.
  virtual void Backward(const std::function<void(uint32_t tensor)>& ready) = 0;
  // Whether Forward takes batches as bytes, and how to page-lock their memory (null: not needed).
  // The pin function is valid as long as this object lives.
  virtual bool TakesBytes() const { return false; }
  virtual data::Pin BytesPin() const { return nullptr; }
  // Announces the batch that follows the next one that Forward gets, so that it can be copied
  // ahead; null: not known yet. The batch must not change until the Forward that gets it has
  // returned, or until ReleaseBatches.
  virtual void Announce(const data::Batch* /*next*/) {}
  virtual void ReleaseBatches() {}
  // The first error, as engine::Net reports it.
  virtual Status status() const { return Ok(); }
};

}  // namespace tern::worker
