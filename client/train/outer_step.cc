#include "client/train/outer_step.h"

#include <algorithm>

#include "common/algorithm/facts.h"

namespace tern::client {

OuterStep::OuterStep(const setup::Setup& setup, Replica& replica) : replica_(replica) {
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  if (facts.outer_optimizer != nullptr) learning_rate_ = facts.outer_optimizer->learning_rate();
}

void OuterStep::AddChange(uint64_t round, uint64_t first, std::span<const float> mean_change) {
  float* const w = replica_.parameters() + first;
  if (replica_.outer_optimizer() == nullptr) {
    for (size_t i = 0; i < mean_change.size(); ++i) w[i] += mean_change[i];
    return;
  }
  gradients_.resize(mean_change.size());
  for (size_t i = 0; i < mean_change.size(); ++i) gradients_[i] = -mean_change[i];
  StepWithGradients(round, first);
}

void OuterStep::MoveToMean(uint64_t round, uint64_t first, std::span<const float> mean_weights) {
  float* const w = replica_.parameters() + first;
  if (replica_.outer_optimizer() == nullptr) {
    std::copy(mean_weights.begin(), mean_weights.end(), w);
    return;
  }
  gradients_.resize(mean_weights.size());
  for (size_t i = 0; i < mean_weights.size(); ++i) gradients_[i] = w[i] - mean_weights[i];
  StepWithGradients(round, first);
}

void OuterStep::StepWithGradients(uint64_t round, uint64_t first) {
  replica_.outer_optimizer()->Update(replica_.parameters() + first, gradients_.data(), first,
                                     gradients_.size(), {learning_rate_, round}, {});
}

}  // namespace tern::client
