// The interface to what computes a worker's gradients and evaluates its weights. The implementation
// chooses the samples. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/train/confusion.h"
#include "common/base/bytes.h"
#include "common/base/status.h"

namespace tern::client {

// The result of an evaluation, as sums over test samples.
struct Score {
  double loss = 0;
  uint64_t correct = 0;     // samples whose label has the largest score
  uint64_t among_five = 0;  // samples whose label has one of the five largest scores
  uint64_t samples = 0;
};

class Compute {
 public:
  // Called before the first layer that reads the tensor runs. Until the function returns, the
  // tensor may still be written. If it returns false, the forward pass ends there.
  using BeforeTensorRead = std::function<bool(uint32_t tensor)>;
  // Called when the gradient of the tensor is final.
  using OnGradientReady = std::function<void(uint32_t tensor)>;

  virtual ~Compute() = default;
  virtual uint64_t steps_per_epoch() const = 0;
  // The names of the classes, by label; empty if the data set has none.
  virtual std::vector<std::string> class_names() const { return {}; }

  // Announces that the next call of FetchSamples is for step `steps_done` + 1. Called before the
  // first step, and again whenever the worker goes back to an earlier step.
  virtual void Begin(uint64_t steps_done) = 0;
  // Announces that FetchSamples is not called again before the next Begin.
  virtual void End() = 0;
  // Gives an object that waits for a foreign program inside of Forward a function that handles
  // events until `is_done`, or returns the error that ends the worker, or this run of it. `is_done`
  // is asked again after the event SamplesReady.
  using AwaitProgram = std::function<Status(const std::function<bool()>& is_done)>;
  virtual void SetAwaitProgram(AwaitProgram /*await*/) {}
  // Before FetchSamples of each step, where samples come from a foreign program (client/tern.h):
  // lets it begin the step. The trainer then handles events until HasSamples(), so that it does not
  // wait for a program that takes long; SamplesReady announces it.
  virtual void OpenStep() {}
  virtual bool HasSamples() const { return true; }
  // Whether the step that was just made was none, because nobody has samples any more: the job
  // ends.
  virtual bool IsOver() const { return false; }
  // Waits for the samples of the next step and returns their number: 0 if this worker takes no part
  // in the step. kBadData names a damaged sample.
  virtual Result<uint32_t> FetchSamples() = 0;

  // Returns the mean loss over the fetched samples, at the replica's point (the weights for
  // gradients). If `before_read` ended the pass, or status() is an error afterwards, Backward must
  // not be called. REQUIRES that FetchSamples returned samples.
  virtual double Forward(const BeforeTensorRead& before_read) = 0;
  // Writes the gradient of this loss to the replica's gradients, from the last tensor to the first.
  // REQUIRES that Forward was the previous call, and that the point has not changed since.
  virtual void Backward(const OnGradientReady& on_ready) = 0;
  // The error of a device that has failed. Losses and gradients are then undefined.
  virtual Status status() const { return Ok(); }

  // In a client's job, whose program holds the state. AskForState: the program is to give its state
  // to another worker, by the event StateGiven. LoadState: another worker has given this state.
  virtual void AskForState() {}
  virtual void LoadState(const Bytes& /*state*/) {}

  // Evaluates part `part` of `num_parts` nearly equal parts of the test set (part < num_parts),
  // with Replica::evaluated_weights() as the weights. If `confusion` is not null, overwrites it
  // with the counts. kBadData as in FetchSamples.
  virtual Result<Score> Evaluate(uint32_t part, uint32_t num_parts, Confusion* confusion) = 0;
};

}  // namespace tern::client
