// The optimizer: names and state of the rules in kernels/optimizer.h, the same for a worker's
// replica and for a server's part of central parameters. It sees what it updates as one arena.
//
//   sgd       w -= lr g
//   momentum  v = m v + g; w -= lr v                                (PyTorch's and TensorFlow's
//   form) nesterov  v = m v + g; w -= lr (g + m v)                        (PyTorch's form) adam m =
//   b1 m + (1 - b1) g; v = b2 v + (1 - b2) g g;
//             w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
//   lars      v = m v + rate g; w -= lr v, with the tensor's rate = trust |w| / (|g| + decay |w|)
//             (survey equations 5 to 7); 1 where |w| or |g| is 0: equation 7 alone would keep a
//             tensor that starts at zero there
//
// g is the mean gradient, plus decay * w where replicas add the decay themselves (in lars' rate it
// stands apart, as in equation 7). All state is in Slots(): what depends on the number of updates
// takes it from Step, so a caller that goes on at update t gives t and has lost nothing. Who sets
// the state back to zero counts from 1 again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "kernels/optimizer_inl.h"
#include "proto/job.pb.h"

namespace tern::update {

// One update of the whole model, which may be done range by range.
struct Step {
  double learning_rate = 0;
  uint64_t number = 1;  // of the update, from 1: adam's corrections are functions of it
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Whether each range given to Update must be exactly one tensor (lars). The others give the same
  // bits however the model is cut.
  virtual bool needs_whole_tensors() const { return false; }
  // Arrays of state, each as long as the model, by name ("momentum"); zero at the start. They are
  // part of State and of checkpoints. The spans stay valid as long as the optimizer.
  struct Slot {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<Slot> Slots() = 0;
  // Updates elements [first, first + n) of the model: w and g point at element `first`. `decay` is
  // what is added to g here (design section 7: weight_decay.where local); 0: nothing. REQUIRES each
  // element once a step.
  virtual void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
                      float decay) = 0;
  // The numbers of the step for who does it elsewhere, with arenas as Slots' (kernels/device.h);
  // and the rate of a tensor whose w and g have these sums of squares, where rules have one.
  virtual kernels::UpdateStep NumbersOf(const Step& step) const = 0;
  virtual float RateOf(double /*weights*/, double /*gradient*/, float /*decay*/) const { return 1; }
};

// `parameters` is the number of elements of the model. kBadJob for an unknown name.
Result<std::unique_ptr<Optimizer>> MakeOptimizer(const pb::Optimizer& def, size_t parameters);
const std::vector<std::string>& OptimizerNames();

}  // namespace tern::update
