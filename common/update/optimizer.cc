#include "common/update/optimizer.h"

#include <algorithm>
#include <cmath>

#include "common/base/floats.h"
#include "common/base/text.h"
#include "common/update/power.h"
#include "kernels/codes/stats.h"
#include "kernels/update/optimizer.h"

namespace tern::update {
namespace {

using OptimizerResult = Result<std::unique_ptr<Optimizer>>;

Status BadValue(const std::string& key, double seen, const std::string& expected) {
  return Status(Code::kBadJob, "train.optimizer." + key + " is " + std::to_string(seen) +
                                   ", expected " + expected);
}

Status CheckMomentum(const pb::Optimizer& keys) {
  if (keys.momentum() >= 0 && keys.momentum() <= 1) return Ok();
  return BadValue("momentum", keys.momentum(), "a number from 0 to 1");
}

// The tensor's learning rate. Its factor multiplies the rounded rate, as on a GPU.
float RateOf(const Step& step, const kernels::TensorRates& rates) {
  return static_cast<float>(step.learning_rate) * rates.rate_times;
}

class Sgd : public Optimizer {
 public:
  std::vector<StateArray> StateArrays() override { return {}; }
  void Update(float* w, const float* g, size_t, size_t n, const Step& step,
              const kernels::TensorRates& rates) override {
    kernels::SgdUpdate(w, g, n, RateOf(step, rates), rates.decay);
  }
  kernels::UpdateStep CoefficientsOf(const Step& step) const override {
    return kernels::UpdateStep{.lr = static_cast<float>(step.learning_rate)};
  }
};

// The base class of optimizers with a velocity (a momentum buffer) v.
class VelocityOptimizer : public Optimizer {
 public:
  VelocityOptimizer(const pb::Optimizer& keys, size_t num_parameters)
      : momentum_(static_cast<float>(keys.momentum())), velocity_(num_parameters) {}

  std::vector<StateArray> StateArrays() override { return {{"momentum", velocity_}}; }

 protected:
  kernels::UpdateStep CoefficientsOfRule(kernels::UpdateRule rule, const Step& step) const {
    return {.rule = rule, .lr = static_cast<float>(step.learning_rate), .momentum = momentum_};
  }

  const float momentum_;
  Floats velocity_;
};

class Momentum : public VelocityOptimizer {
 public:
  using VelocityOptimizer::VelocityOptimizer;
  void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
              const kernels::TensorRates& rates) override {
    kernels::MomentumUpdate(w, velocity_.data() + first, g, n, RateOf(step, rates), momentum_,
                            rates.decay);
  }
  kernels::UpdateStep CoefficientsOf(const Step& step) const override {
    return CoefficientsOfRule(kernels::UpdateRule::kMomentum, step);
  }
};

class Nesterov : public VelocityOptimizer {
 public:
  using VelocityOptimizer::VelocityOptimizer;
  void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
              const kernels::TensorRates& rates) override {
    kernels::NesterovUpdate(w, velocity_.data() + first, g, n, RateOf(step, rates), momentum_,
                            rates.decay);
  }
  kernels::UpdateStep CoefficientsOf(const Step& step) const override {
    return CoefficientsOfRule(kernels::UpdateRule::kNesterov, step);
  }
};

class Lars : public VelocityOptimizer {
 public:
  Lars(const pb::Optimizer& keys, size_t num_parameters)
      : VelocityOptimizer(keys, num_parameters), trust_coefficient_(keys.trust_coefficient()) {}

  bool needs_whole_tensors() const override { return true; }
  bool needs_loss_gradient() const override { return true; }
  void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
              const kernels::TensorRates& rates) override {
    const float ratio = LarsRatioOf(kernels::ComputeStats(w, n).sum_squares,
                                    kernels::ComputeStats(g, n).sum_squares, rates.decay);
    kernels::LarsUpdate(w, velocity_.data() + first, g, n, RateOf(step, rates), ratio, momentum_,
                        rates.decay);
  }
  kernels::UpdateStep CoefficientsOf(const Step& step) const override {
    return CoefficientsOfRule(kernels::UpdateRule::kLars, step);
  }
  float LarsRatioOf(double sum_squares_w, double sum_squares_g, float decay) const override {
    const double norm_w = std::sqrt(sum_squares_w), norm_g = std::sqrt(sum_squares_g);
    return norm_w > 0 && norm_g > 0
               ? static_cast<float>(trust_coefficient_ * norm_w / (norm_g + double{decay} * norm_w))
               : 1;
  }

 private:
  const double trust_coefficient_;
};

class Adam : public Optimizer {
 public:
  Adam(const pb::Optimizer& keys, size_t num_parameters)
      : beta1_(keys.beta1()),
        beta2_(keys.beta2()),
        epsilon_(keys.epsilon()),
        first_moment_(num_parameters),
        second_moment_(num_parameters) {}

  bool counts_updates() const override { return true; }
  std::vector<StateArray> StateArrays() override {
    return {{"first_moment", first_moment_}, {"second_moment", second_moment_}};
  }
  void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
              const kernels::TensorRates& rates) override {
    kernels::AdamStep adam_step = AdamStepOf(step);
    adam_step.rate *= rates.rate_times;
    kernels::AdamUpdate(w, first_moment_.data() + first, second_moment_.data() + first, g, n,
                        adam_step, rates.decay);
  }
  kernels::UpdateStep CoefficientsOf(const Step& step) const override {
    return kernels::UpdateStep{.rule = kernels::UpdateRule::kAdam, .adam = AdamStepOf(step)};
  }

 private:
  kernels::AdamStep AdamStepOf(const Step& step) const {
    const auto to_float = [](double number) { return static_cast<float>(number); };
    const uint64_t t = step.number - step.state_begin;
    return {.rate = to_float(step.learning_rate / (1 - Power(beta1_, t))),
            .root = to_float(1 / std::sqrt(1 - Power(beta2_, t))),
            .beta1 = to_float(beta1_),
            .one_minus_beta1 = to_float(1 - beta1_),
            .beta2 = to_float(beta2_),
            .one_minus_beta2 = to_float(1 - beta2_),
            .epsilon = to_float(epsilon_)};
  }

  const double beta1_, beta2_, epsilon_;
  Floats first_moment_, second_moment_;
};

class Rmsprop : public VelocityOptimizer {
 public:
  Rmsprop(const pb::Optimizer& keys, size_t num_parameters)
      : VelocityOptimizer(keys, num_parameters),
        rho_(keys.rho()),
        epsilon_(keys.epsilon()),
        mean_square_(num_parameters) {}

  std::vector<StateArray> StateArrays() override {
    return {{"momentum", velocity_}, {"mean_square", mean_square_}};
  }
  void Update(float* w, const float* g, size_t first, size_t n, const Step& step,
              const kernels::TensorRates& rates) override {
    if (rates.rate_times == 0) return;  // as in kernels/update/optimizer_math.h
    kernels::RmspropStep rmsprop_step = RmspropStepOf(step);
    rmsprop_step.lr *= rates.rate_times;
    kernels::RmspropUpdate(w, velocity_.data() + first, mean_square_.data() + first, g, n,
                           rmsprop_step, rates.decay);
  }
  kernels::UpdateStep CoefficientsOf(const Step& step) const override {
    return kernels::UpdateStep{.rule = kernels::UpdateRule::kRmsprop,
                               .rmsprop = RmspropStepOf(step)};
  }

 private:
  kernels::RmspropStep RmspropStepOf(const Step& step) const {
    return {.lr = static_cast<float>(step.learning_rate),
            .momentum = momentum_,
            .rho = static_cast<float>(rho_),
            .one_minus_rho = static_cast<float>(1 - rho_),
            .epsilon = static_cast<float>(epsilon_)};
  }

  const double rho_, epsilon_;
  Floats mean_square_;
};

template <typename T, typename... Args>
OptimizerResult MakeOptimizerOf(const Args&... args) {
  return std::unique_ptr<Optimizer>(std::make_unique<T>(args...));
}

OptimizerResult MakeSgd(const pb::Optimizer&, size_t) { return MakeOptimizerOf<Sgd>(); }

template <typename T>
OptimizerResult MakeVelocityOptimizer(const pb::Optimizer& keys, size_t num_parameters) {
  TERN_RETURN_IF_ERROR(CheckMomentum(keys));
  return MakeOptimizerOf<T>(keys, num_parameters);
}

OptimizerResult MakeLars(const pb::Optimizer& keys, size_t num_parameters) {
  TERN_RETURN_IF_ERROR(CheckMomentum(keys));
  if (!(keys.trust_coefficient() > 0 && std::isfinite(keys.trust_coefficient())))
    return BadValue("trust_coefficient", keys.trust_coefficient(), "a finite number above 0");
  return MakeOptimizerOf<Lars>(keys, num_parameters);
}

// With epsilon 0, a gradient of zeros would give 0 / 0.
Status CheckEpsilon(const pb::Optimizer& keys) {
  if (static_cast<float>(keys.epsilon()) > 0 && std::isfinite(keys.epsilon())) return Ok();
  return BadValue("epsilon", keys.epsilon(), "a finite number above 0");
}

OptimizerResult MakeAdam(const pb::Optimizer& keys, size_t num_parameters) {
  if (!(keys.beta1() >= 0 && keys.beta1() < 1))
    return BadValue("beta1", keys.beta1(), "a number of at least 0, below 1");
  if (!(keys.beta2() >= 0 && keys.beta2() < 1))
    return BadValue("beta2", keys.beta2(), "a number of at least 0, below 1");
  TERN_RETURN_IF_ERROR(CheckEpsilon(keys));
  return MakeOptimizerOf<Adam>(keys, num_parameters);
}

OptimizerResult MakeRmsprop(const pb::Optimizer& keys, size_t num_parameters) {
  TERN_RETURN_IF_ERROR(CheckMomentum(keys));
  if (!(keys.rho() >= 0 && keys.rho() < 1))
    return BadValue("rho", keys.rho(), "a number of at least 0, below 1");
  TERN_RETURN_IF_ERROR(CheckEpsilon(keys));
  return MakeOptimizerOf<Rmsprop>(keys, num_parameters);
}

struct OptimizerEntry {
  const char* name;
  OptimizerResult (*make)(const pb::Optimizer& keys, size_t num_parameters);
  bool has_momentum;  // whether the key `momentum` applies
  bool may_be_outer;  // whether it may be the outer optimizer of local steps
};

const OptimizerEntry kOptimizers[] = {
    {"sgd", MakeSgd, false, true},
    {"momentum", MakeVelocityOptimizer<Momentum>, true, true},
    {"nesterov", MakeVelocityOptimizer<Nesterov>, true, true},
    {"adam", MakeAdam, false, false},
    {"lars", MakeLars, true, false},
    {"rmsprop", MakeRmsprop, true, false},
};

std::vector<std::string> NamesOf(bool outer_only) {
  std::vector<std::string> names;
  for (const OptimizerEntry& entry : kOptimizers) {
    if (entry.may_be_outer || !outer_only) names.emplace_back(entry.name);
  }
  return names;
}

}  // namespace

const std::vector<std::string>& OptimizerNames() {
  static const std::vector<std::string> names = NamesOf(false);
  return names;
}

const std::vector<std::string>& OuterOptimizerNames() {
  static const std::vector<std::string> names = NamesOf(true);
  return names;
}

std::string DescribeOptimizer(const pb::Optimizer& keys) {
  for (const OptimizerEntry& entry : kOptimizers) {
    if (keys.name() != entry.name || !entry.has_momentum) continue;
    return Cat(keys.name(), keys.name() == "momentum" ? " " : " with momentum ", keys.momentum());
  }
  return keys.name();
}

Result<std::unique_ptr<Optimizer>> MakeOptimizer(const pb::Optimizer& keys, size_t num_parameters) {
  for (const OptimizerEntry& entry : kOptimizers) {
    if (keys.name() == entry.name) return entry.make(keys, num_parameters);
  }
  return Status(Code::kBadJob, "train.optimizer.name is '" + keys.name() + "', expected one of " +
                                   Join(OptimizerNames()));
}

Result<std::unique_ptr<Optimizer>> MakeOuterOptimizer(const pb::OuterOptimizer& keys,
                                                      size_t num_parameters) {
  const std::vector<std::string>& names = OuterOptimizerNames();
  if (std::find(names.begin(), names.end(), keys.name()) == names.end())
    return Status(Code::kBadJob,
                  Cat("the outer optimizer is '", keys.name(), "', expected one of ", Join(names)));
  pb::Optimizer optimizer_keys;
  optimizer_keys.set_name(keys.name());
  optimizer_keys.set_momentum(keys.momentum());
  return MakeOptimizer(optimizer_keys, num_parameters);
}

}  // namespace tern::update
