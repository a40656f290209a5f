// Optimizers, which keep the state of the update rules in kernels/update/optimizer.h. Workers use
// them for their replicas of the model, and servers for the parameters that they hold. An optimizer
// treats these parameters as one array.
//
//   sgd       w -= lr g
//   momentum  v  = m v + g                  PyTorch's and TensorFlow's form
//             w -= lr v
//   nesterov  v  = m v + g                  PyTorch's form
//             w -= lr (g + m v)
//   adam      m  = b1 m + (1 - b1) g
//             v  = b2 v + (1 - b2) g g
//             w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
//   lars      r = trust |w| / (|g| + decay |w|)    of each tensor; 1 if |w| or |g| is 0
//             v  = m v + r g
//             w -= lr v
//   rmsprop   s  = rho s + (1 - rho) g g
//             v  = m v + lr g / sqrt(s + epsilon)
//             w -= v
//
// rmsprop is that of Tieleman and Hinton (2012) in the form of TensorFlow's RMSPropOptimizer, with
// which TensorFlow's Inception programs train: with momentum, and epsilon inside the root. One
// thing differs: s starts at 0, and at 1 there. PyTorch's form has epsilon outside the root and lr
// outside the momentum.
//
// lr is the learning rate, times rate_times of the tensor; m (except in adam), b1, b2, rho, epsilon
// and trust are keys of the job; t counts the updates since the state was zero, from 1. g is
// the mean gradient, plus decay * w if the optimizer adds the weight decay; |g| in lars' r is that
// of the loss, without decay * w. |x| is the 2-norm. Because r is 1 if |w| is 0, a tensor that
// starts at zero can change (docs/ALGORITHMS.md, section 13).
//
// All state is in StateArrays(). The number t is in Step, so a caller that resumes before update t
// passes t. After the state was set to zero, the caller passes since when (state_begins.h).
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
  uint64_t number = 1;  // of the update, from 1
  // The number of the last update before the state was set to zero; 0 if it never was. t, for
  // adam's bias corrections, is number - state_begin.
  uint64_t state_begin = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Whether each range given to Update must be exactly one tensor (lars). Other optimizers give the
  // same bits however the model is cut into ranges.
  virtual bool needs_whole_tensors() const { return false; }
  // Whether Update must get the gradient of the loss alone (lars, which has its norm): the caller
  // takes out the weight decay that the gradient has, and passes it as `decay`.
  virtual bool needs_loss_gradient() const { return false; }
  // Whether updates depend on t (adam).
  virtual bool counts_updates() const { return false; }
  // An array of state: one number per element of the model, zero at the start. Checkpoints contain
  // these arrays, and a worker that joins a running job gets them. The spans are valid as long as
  // the optimizer.
  struct StateArray {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<StateArray> StateArrays() = 0;
  // Updates elements [first, first + n) of the model: w and g point at element `first`. `rates`:
  // those of the elements' tensor. g + rates.decay * w is used in place of g; 0 if g already
  // includes the weight decay. REQUIRES exactly one call per element and step.
  virtual void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
                      const kernels::TensorRates& rates) = 0;
  // The coefficients of the step, for a caller that computes on a GPU with copies of StateArrays().
  virtual kernels::UpdateStep CoefficientsOf(const Step& step) const = 0;
  // The ratio r of one tensor for lars; 1 for all other optimizers. `sum_squares_w` and
  // `sum_squares_g`: the sums of squares of the tensor's w and g.
  virtual float LarsRatioOf(double /*sum_squares_w*/, double /*sum_squares_g*/,
                            float /*decay*/) const {
    return 1;
  }
};

// `num_parameters`: the number of elements of the model. Returns kBadJob for an unknown name or an
// invalid value.
Result<std::unique_ptr<Optimizer>> MakeOptimizer(const pb::Optimizer& keys, size_t num_parameters);
const std::vector<std::string>& OptimizerNames();
// The same for the outer optimizer of algorithms with local steps, which client/train/outer_step.h
// uses. Its names are those of the optimizers whose steps DiLoCo compares: sgd, momentum, nesterov.
Result<std::unique_ptr<Optimizer>> MakeOuterOptimizer(const pb::OuterOptimizer& keys,
                                                      size_t num_parameters);
const std::vector<std::string>& OuterOptimizerNames();
// The optimizer and its momentum, for people: "sgd", "momentum 0.9", "lars with momentum 0.9".
std::string DescribeOptimizer(const pb::Optimizer& keys);

}  // namespace tern::update
