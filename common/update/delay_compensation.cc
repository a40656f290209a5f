#include "common/update/delay_compensation.h"

#include "kernels/update/compensation.h"

namespace tern::update {

DelayCompensation DelayCompensation::MakeConstant(double lambda) { return {false, lambda, 0, 0}; }

DelayCompensation DelayCompensation::MakeAdaptive(double lambda, double rho,
                                                  size_t num_parameters) {
  return {true, lambda, rho, num_parameters};
}

DelayCompensation::DelayCompensation(bool is_adaptive, double lambda, double rho,
                                     size_t num_parameters)
    : is_adaptive_(is_adaptive),
      lambda_(static_cast<float>(lambda)),
      rho_(static_cast<float>(rho)),
      one_minus_rho_(static_cast<float>(1 - rho)),
      mean_square_(num_parameters) {}

std::vector<Optimizer::StateArray> DelayCompensation::StateArrays() {
  if (!is_adaptive_) return {};
  return {{"mean_square", mean_square_}};
}

void DelayCompensation::CopyCoefficientsTo(kernels::LocalStep* step) const {
  using Compensation = kernels::LocalStep::Compensation;
  step->compensation = is_adaptive_ ? Compensation::kAdaptive : Compensation::kConstant;
  step->lambda = lambda_;
  step->rho = rho_;
  step->one_minus_rho = one_minus_rho_;
}

void DelayCompensation::CompensateGradient(const float* g, const float* w, const float* backup,
                                           size_t first, size_t n, float* out) {
  if (is_adaptive_) {
    kernels::CompensateAdaptive(g, w, backup, mean_square_.data() + first, n, lambda_, rho_,
                                one_minus_rho_, out);
  } else {
    kernels::CompensateConstant(g, w, backup, n, lambda_, out);
  }
}

}  // namespace tern::update
