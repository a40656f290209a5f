// A worker's replica of the model: W, gradients, optimizer state and moving average, each one arena
// in canonical order; and, if the algorithm trains at other weights than W, those, the point. Under
// localized parameters every worker's W is bit-identical after every round. Threads: the compute
// thread owns it; the coder reads pushed arrays until the round's sums have arrived.
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
  // The initial weights of the job's seed. `setup` outlives the replica.
  static Result<std::unique_ptr<Replica>> Make(const setup::Setup& setup);

  float* parameters() { return parameters_.data(); }  // W
  float* point() { return point_.empty() ? parameters_.data() : point_.data(); }
  float* gradients() { return gradients_.data(); }  // taken at point()
  // The statistics of batch norms: this worker's own; and their mean over the workers at the last
  // comparison, for evaluation and for users of the weights.
  std::vector<float>& statistics() { return statistics_; }
  std::vector<float>& mean_statistics() { return mean_statistics_; }
  // What evaluation uses: the moving average if the job has one, else W.
  const float* evaluated() const { return average_.empty() ? parameters_.data() : average_.data(); }
  // The moving average; empty if the job has none.
  Floats& average() { return average_; }
  update::Optimizer& optimizer() { return *optimizer_; }
  // Where the values lie: at first in the arrays above. MoveTo: somewhere else, which owns weights
  // and optimizer state from now on. Loaded states are copied there; a caller that reads them here
  // (a hash, a state, views) calls Bring first.
  Arenas& arenas() { return *arenas_; }
  Status MoveTo(std::unique_ptr<Arenas> arenas);
  // The arrays above.
  HostValues host_values();
  Status CopyToHost() { return arenas_->CopyToHost(); }
  Status CopyFromHost() { return arenas_->CopyFromHost(); }
  // Updates the moving average of elements [first, first + n) after change number `update` (from 1)
  // of W, in the arrays above.
  void Average(size_t first, size_t n, uint64_t update);

  // Resets the optimizer's state.
  void ResetOptimizer();
  uint64_t Hash() const;  // of W
  // Whether gradients are taken at other weights than W.
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
