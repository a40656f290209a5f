// A worker's replica of the model: the weights W on which the workers agree, gradients, optimizer
// state and the moving average of W. Each is an arena: one array of all parameters in canonical
// order. If the algorithm computes gradients at other weights than W, the replica also has those
// weights, called the point. If the workers hold the parameters, W is bit-identical on all workers
// after every round. Threads: the compute thread owns the replica; the coder thread reads pushed
// arrays until the round's sums have arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/train/arenas.h"
#include "common/base/floats.h"
#include "common/base/status.h"
#include "common/update/optimizer.h"
#include "common/update/state_begins.h"
#include "setup/setup.h"

namespace tern::client {

class Replica {
 public:
  // Makes a replica with the weights of setup::FirstWeights; without weights and optimizer state in
  // a client's job, where the program has them. `setup` must outlive the replica.
  static Result<std::unique_ptr<Replica>> Make(const setup::Setup& setup);

  float* parameters() { return parameters_.data(); }  // W
  // The weights at which gradients are computed; W unless has_point().
  float* point() { return point_.empty() ? parameters_.data() : point_.data(); }
  float* gradients() { return gradients_.data(); }  // computed at point()
  // The running statistics of batch norms: this worker's own, and their mean over the workers at
  // the last comparison of the replicas (figures.h). Evaluation and the files of weights use the
  // mean.
  std::vector<float>& statistics() { return statistics_; }
  std::vector<float>& mean_statistics() { return mean_statistics_; }
  // The frozen parameters, which are part of the model but not of W.
  const float* frozen() const { return frozen_.data(); }
  // The weights for evaluation: the moving average if the job has one, else W.
  const float* evaluated_weights() const {
    return average_.empty() ? parameters_.data() : average_.data();
  }
  // The moving average; empty if the job has none.
  Floats& average() { return average_; }
  update::Optimizer& optimizer() { return *optimizer_; }
  // When the optimizer's state began. Ranges that begin apart are the parts of the model that the
  // job's algorithm exchanges, if the optimizer counts updates.
  update::StateBegins& state_begins() { return *state_begins_; }
  // The outer optimizer (outer_step.h), whose state is bit-identical on all workers after every
  // round, as W is; null if the job has none.
  update::Optimizer* outer_optimizer() { return outer_optimizer_.get(); }
  // The object with a step's operations on the arrays. At first it uses the arrays of this object.
  Arenas& arenas() { return *arenas_; }
  // Uses the operations of `arenas` from then on, and copies weights and optimizer state to its
  // device, if it has one. Then call CopyToHost before reading this object's arrays, and
  // CopyFromHost after changing them.
  Status MoveTo(std::unique_ptr<Arenas> arenas);
  // Returns pointers to this object's arrays.
  HostValues host_values();
  Status CopyToHost() { return arenas_->CopyToHost(); }
  Status CopyFromHost() { return arenas_->CopyFromHost(); }
  // If the job has evaluation.ema_decay, updates this object's moving average of elements [first,
  // first + count) after update number `update` of W. Updates count from 1.
  void UpdateMovingAverage(size_t first, size_t count, uint64_t update);

  // Sets the arrays of the optimizer's state to zero, but not the outer optimizer's: all elements,
  // or elements [first, first + n), which are a part that the algorithm exchanges.
  void ResetOptimizer();
  void ResetOptimizer(uint64_t first, uint64_t n);
  // A hash of W.
  uint64_t Hash() const;
  // False in a client's job, whose programs have the weights.
  bool holds_weights() const { return !parameters_.empty(); }
  // Whether gradients are computed at other weights than W.
  bool has_point() const { return !point_.empty(); }

 private:
  explicit Replica(const setup::Setup& setup);
  const setup::Setup& setup_;
  Floats parameters_, point_, gradients_, average_;
  std::vector<float> frozen_, statistics_, mean_statistics_;
  std::unique_ptr<update::Optimizer> optimizer_, outer_optimizer_;
  std::unique_ptr<update::StateBegins> state_begins_;
  std::unique_ptr<Arenas> arenas_;  // The last member, because it uses the arrays above.
};

}  // namespace tern::client
