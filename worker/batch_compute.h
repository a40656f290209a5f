// The interface to what computes the loss and gradient of a batch. One implementation runs the
// neural net (net_compute.h). The other, for benchmarks of the communication, computes nothing and
// only waits for as long as a computation would take (wait_compute.h).
#pragma once

#include <functional>

#include "common/base/status.h"
#include "worker/data/prefetcher.h"
#include "worker/engine/net.h"

namespace tern::worker {

class BatchCompute {
 public:
  virtual ~BatchCompute() = default;
  // Returns the mean loss of the batch at the parameters in the arena that the implementation was
  // made with. Calls `need` before it reads a parameter. If `need` returns false, the forward pass
  // ends there, and Backward must not be called.
  virtual double Forward(const data::Batch& batch, const engine::Need& need) = 0;
  // Writes the gradient of the loss of Forward's batch to the gradient arena that the
  // implementation was made with. Calls `ready(t)` when the gradient of tensor t is final, from the
  // last tensor to the first. REQUIRES that Forward was called just before, and that the parameters
  // have not changed since.
  virtual void Backward(const std::function<void(uint32_t tensor)>& ready) = 0;
  // TakesBytes returns whether Forward expects images as bytes (Batch::bytes) instead of floats.
  // BytesPin returns the function that page-locks the memory of those bytes, or null if they need
  // not be page-locked. The function is valid as long as this object lives.
  virtual bool TakesBytes() const { return false; }
  virtual data::PinFunction BytesPin() const { return nullptr; }
  // Called before the Forward of a batch with the batch after it (`next`, null if it is not known
  // yet), so that `next` can be copied to a device early. The batch `next` must not change until
  // its own Forward has returned, or until ReleaseBatches is called.
  virtual void AnnounceNextBatch(const data::Batch* /*next*/) {}
  virtual void ReleaseBatches() {}
  // The first error of the device that computes. After an error, losses and gradients are
  // unspecified.
  virtual Status status() const { return Ok(); }
};

}  // namespace tern::worker
