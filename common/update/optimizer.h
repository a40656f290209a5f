// The optimizer: names and state of the update rules in kernels/update/optimizer.h, the same for a
// worker's replica and for a server's share of central parameters. It treats the parameters that it
// updates as one arena.
//
//   sgd       w -= lr g
//   momentum  v  = m v + g                  PyTorch's and TensorFlow's form
//             w -= lr v
//   nesterov  v  = m v + g                  PyTorch's form
//             w -= lr (g + m v)
//   adam      m  = b1 m + (1 - b1) g
//             v  = b2 v + (1 - b2) g g
//             w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
//   lars      rate = trust |w| / (|g| + decay |w|)    of each tensor; 1 if |w| or |g| is 0
//             v  = m v + rate g
//             w -= lr v
//
// g is the mean gradient, plus decay * w if the replicas add the weight decay themselves; |g| in
// the rate of lars is without it. lars is the survey's equations 5 to 7; with equation 7 alone a
// tensor that starts at zero would stay there (docs/ALGORITHMS.md, section 13).
//
// All state is in StateArrays(). The number of updates comes from Step, so a caller that resumes at
// update t passes t, and loses nothing. After a reset of the state to zero, the caller counts from
// 1 again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "kernels/update/optimizer_math.h"
#include "proto/job.pb.h"

namespace tern::update {

// One update of the whole model, which may be applied range by range.
struct Step {
  double learning_rate = 0;
  uint64_t number = 1;  // of the update, from 1: adam's bias corrections depend on it
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Whether each range given to Update must be exactly one tensor (lars). Other optimizers give the
  // same bits however the model is cut into ranges.
  virtual bool needs_whole_tensors() const { return false; }
  // Arrays of state, each as long as the model, by name ("momentum"); zero at the start. They are
  // part of State and of checkpoints. The spans are valid as long as the optimizer.
  struct StateArray {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<StateArray> StateArrays() = 0;
  // Updates elements [first, first + n) of the model: w and g point at element `first`. `decay` is
  // the weight decay to add to g here (weight_decay.where: local; docs/ALGORITHMS.md, section 1);
  // 0: none. REQUIRES exactly one call per element and step.
  virtual void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
                      float decay) = 0;
  // The coefficients of the step, for a caller that computes on a device with arenas like
  // StateArrays() (kernels/update/update.h).
  virtual kernels::UpdateStep CoefficientsOf(const Step& step) const = 0;
  // The rate of one tensor, for optimizers that have one (lars); else 1. `weights` and `gradient`:
  // the sums of squares of its w and g.
  virtual float RateOf(double /*weights*/, double /*gradient*/, float /*decay*/) const { return 1; }
};

// `parameters` is the number of elements of the model. kBadJob for an unknown name.
Result<std::unique_ptr<Optimizer>> MakeOptimizer(const pb::Optimizer& def, size_t parameters);
const std::vector<std::string>& OptimizerNames();

}  // namespace tern::update
