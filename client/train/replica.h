// A worker's replica of the model: W, gradients, optimizer state and moving average, each one arena
// in canonical order. If the algorithm computes gradients at other weights than W, the replica has
// these too: the point. With localized parameters, W is bit-identical on all workers after every
// round. Threads: the compute thread owns it; the coder thread reads pushed arrays until the
// round's sums have arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/train/arenas.h"
#include "common/base/floats.h"
#include "common/base/status.h"
#include "common/update/optimizer.h"
#include "setup/setup.h"

namespace tern::client {

class Replica {
 public:
  // Makes a replica with the initial weights, a function of the job's seed. `setup` outlives it.
  static Result<std::unique_ptr<Replica>> Make(const setup::Setup& setup);

  float* parameters() { return parameters_.data(); }  // W
  // The weights at which gradients are computed; W unless has_point().
  float* point() { return point_.empty() ? parameters_.data() : point_.data(); }
  float* gradients() { return gradients_.data(); }  // computed at point()
  // The running statistics of batch norms: this worker's own, and their mean over the workers at
  // the last comparison (figures.h). Evaluation and the files of weights use the mean.
  std::vector<float>& statistics() { return statistics_; }
  std::vector<float>& mean_statistics() { return mean_statistics_; }
  // The weights for evaluation: the moving average if the job has one, else W.
  const float* evaluated() const { return average_.empty() ? parameters_.data() : average_.data(); }
  // The moving average; empty if the job has none.
  Floats& average() { return average_; }
  update::Optimizer& optimizer() { return *optimizer_; }
  // The object that operates on the values; at first it uses the arrays above.
  Arenas& arenas() { return *arenas_; }
  // Moves weights and optimizer state to `arenas`, a device's. Call CopyToHost before reading the
  // arrays above from then on, and CopyFromHost after changing them.
  Status MoveTo(std::unique_ptr<Arenas> arenas);
  // Pointers to the arrays above.
  HostValues host_values();
  Status CopyToHost() { return arenas_->CopyToHost(); }
  Status CopyFromHost() { return arenas_->CopyFromHost(); }
  // Updates the moving average of elements [first, first + n) after update number `update` of W, in
  // the arrays above. Updates count from 1.
  void Average(size_t first, size_t n, uint64_t update);

  // Resets the optimizer's state.
  void ResetOptimizer();
  // A hash of W.
  uint64_t Hash() const;
  // Whether gradients are computed at other weights than W.
  bool has_point() const { return !point_.empty(); }

 private:
  explicit Replica(const setup::Setup& setup);
  const setup::Setup& setup_;
  Floats parameters_, point_, gradients_, average_;
  std::vector<float> statistics_, mean_statistics_;
  std::unique_ptr<update::Optimizer> optimizer_;
  std::unique_ptr<Arenas> arenas_;  // last: it uses the arrays
};

}  // namespace tern::client
