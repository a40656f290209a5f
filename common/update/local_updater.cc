#include "common/update/local_updater.h"

#include <algorithm>
#include <array>

#include "common/base/text.h"
#include "kernels/update/optimizer.h"

namespace tern::update {
namespace {

using OptionalCompensation = std::optional<DelayCompensation>;

struct UpdaterEntry {
  const char* name;
  OptionalCompensation (*make_compensation)(const pb::LocalUpdater& keys, size_t num_parameters);
};

// The local updaters by name, and the delay compensation that each one uses, if any.
const UpdaterEntry kLocalUpdaters[] = {
    {"none", [](const pb::LocalUpdater&, size_t) { return OptionalCompensation(); }},
    {"sgd", [](const pb::LocalUpdater&, size_t) { return OptionalCompensation(); }},
    {"dcasgd_c",
     [](const pb::LocalUpdater& keys, size_t) {
       return OptionalCompensation(DelayCompensation::MakeConstant(keys.lambda()));
     }},
    {"dcasgd_a",
     [](const pb::LocalUpdater& keys, size_t num_parameters) {
       return OptionalCompensation(
           DelayCompensation::MakeAdaptive(keys.lambda(), keys.rho(), num_parameters));
     }},
};

}  // namespace

const std::vector<std::string>& LocalUpdaterNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names_in_table;
    for (const UpdaterEntry& entry : kLocalUpdaters) names_in_table.emplace_back(entry.name);
    return names_in_table;
  }();
  return names;
}

Result<std::unique_ptr<LocalUpdater>> MakeLocalUpdater(const pb::LocalUpdater& keys,
                                                       size_t num_parameters, uint32_t workers) {
  for (const UpdaterEntry& entry : kLocalUpdaters) {
    if (keys.name() != entry.name) continue;
    std::unique_ptr<LocalUpdater> updater(new LocalUpdater());
    updater->changes_weights_ = keys.name() != "none";
    if (keys.has_learning_rate()) updater->fixed_rate_ = static_cast<float>(keys.learning_rate());
    if (keys.has_learning_rate_times()) updater->rate_times_ = keys.learning_rate_times();
    if (keys.grad_scale() == pb::LocalUpdater::global_mean)
      updater->gradient_factor_ = static_cast<float>(1.0 / workers);
    updater->compensation_ = entry.make_compensation(keys, num_parameters);
    updater->momentum_ = static_cast<float>(keys.momentum());
    if (updater->changes_weights_ && keys.momentum() > 0) updater->velocity_.resize(num_parameters);
    return updater;
  }
  return Status(Code::kBadJob, "the local updater is named '" + keys.name() +
                                   "', expected one of " + Join(LocalUpdaterNames()));
}

std::vector<Optimizer::StateArray> LocalUpdater::StateArrays() {
  std::vector<Optimizer::StateArray> arrays;
  if (!velocity_.empty()) arrays.push_back({"local_momentum", velocity_});
  if (compensation_.has_value()) {
    for (const Optimizer::StateArray& array : compensation_->StateArrays())
      arrays.push_back({"local_" + array.name, array.values});
  }
  return arrays;
}

float LocalUpdater::RateOf(float schedule_rate) const {
  return fixed_rate_.value_or(static_cast<float>(rate_times_ * schedule_rate));
}

kernels::LocalStep LocalUpdater::CoefficientsOf(float learning_rate) const {
  kernels::LocalStep step;
  step.moves = changes_weights_;
  step.scale = gradient_factor_;
  if (compensation_.has_value()) compensation_->CopyCoefficientsTo(&step);
  step.has_momentum = !velocity_.empty();
  step.lr = RateOf(learning_rate);
  step.momentum = momentum_;
  return step;
}

void LocalUpdater::ComputeLocalWeights(const float* w_global, const float* g,
                                       const float* reference, float learning_rate, float* w_next,
                                       size_t n, size_t first, const kernels::TensorRates& rates) {
  const float rate = RateOf(learning_rate) * rates.rate_times;
  constexpr size_t kBlockElements = 4096;  // fits in the L1 cache
  std::array<float, kBlockElements> scaled_gradient, compensated_gradient;
  for (size_t block_begin = 0; block_begin < n; block_begin += kBlockElements) {
    const size_t block_count = std::min(kBlockElements, n - block_begin);
    const float* d = g + block_begin;
    if (gradient_factor_ != 1) {
      std::copy_n(d, block_count, scaled_gradient.data());
      kernels::Scale(scaled_gradient.data(), block_count, gradient_factor_);
      d = scaled_gradient.data();
    }
    if (compensation_.has_value()) {
      compensation_->CompensateGradient(d, w_global + block_begin, reference + block_begin,
                                        first + block_begin, block_count,
                                        compensated_gradient.data());
      d = compensated_gradient.data();
    }
    std::copy_n(w_global + block_begin, block_count, w_next + block_begin);
    if (!changes_weights_) continue;
    if (velocity_.empty()) {
      kernels::SgdUpdate(w_next + block_begin, d, block_count, rate, rates.decay);
    } else {
      kernels::MomentumUpdate(w_next + block_begin, velocity_.data() + first + block_begin, d,
                              block_count, rate, momentum_, rates.decay);
    }
  }
}

}  // namespace tern::update
