// Computes a worker's gradients and evaluates its weights. Which samples it takes is its own
// affair. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <functional>

#include "client/train/confusion.h"
#include "common/base/status.h"

namespace tern::client {

// Sums over test samples.
struct Score {
  double loss = 0;
  uint64_t correct = 0;     // samples whose label has the largest score
  uint64_t among_five = 0;  // samples whose label has one of the five largest
  uint64_t samples = 0;
};

class Compute {
 public:
  // Called before the first layer that reads tensor t does so: the tensor may still be written
  // until it returns. Returning false ends the pass there.
  using Need = std::function<bool(uint32_t tensor)>;
  // Called when the gradient of tensor t is final.
  using Ready = std::function<void(uint32_t tensor)>;

  virtual ~Compute() = default;
  virtual uint64_t steps_per_epoch() const = 0;

  // The step after `steps_done` is fetched next. Called before the first step, and again whenever
  // the worker goes back.
  virtual void Begin(uint64_t steps_done) = 0;
  // No step follows, or Begin does.
  virtual void End() = 0;
  // Waits for the samples of the next step and returns how many this worker takes: 0 if it takes no
  // part in the step. kBadData names the sample that is damaged.
  virtual Result<uint32_t> Fetch() = 0;

  // The mean loss over the fetched samples, at the replica's point. If `need` ends the pass, or
  // status() is an error then, Backward must not be called. REQUIRES that Fetch returned samples.
  virtual double Forward(const Need& need) = 0;
  // Computes the gradient of that loss, into the replica's gradients, from the last tensor to the
  // first. REQUIRES a Forward just before and the point unchanged since.
  virtual void Backward(const Ready& ready) = 0;
  // The error of a device that has failed; losses and gradients are meaningless then.
  virtual Status status() const { return Ok(); }

  // Sums over part `part` of `parts` equal parts of the test set, at the replica's evaluated
  // weights; part < parts. If not null, *confusion gets the counts. kBadData as in Fetch.
  virtual Result<Score> Evaluate(uint32_t part, uint32_t parts, Confusion* confusion) = 0;
};

}  // namespace tern::client
