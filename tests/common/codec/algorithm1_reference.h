// Algorithm 1 of TernGrad (Wen et al. 2017) as the paper states it, in double precision, written
// for readability. It shares only the uniform numbers (kernels::Draw32) and the problem with the
// code under test.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/common/codec/algorithm1_problem.h"

namespace tern::codec {

// The intermediate results of one worker for one tensor in one step.
struct TernarizedTensor {
  double sigma = 0;              // standard deviation of the gradient
  double clip = 0;               // clip limit c * sigma (eq. 9); infinity if nothing is clipped
  double own_scaler = 0;         // s_t^(i): worker i's scaler in step t
  double scaler = 0;             // s_t: the maximum over the workers, or the worker's own scaler
  std::vector<double> gradient;  // g_t^(i), including weight decay
  std::vector<int8_t> codes;     // sign(g) * b per element, where b is a random 0 or 1 (eq. 1)
  // |u - P(b = 1)| per element, where the uniform random number u decides on b: a small margin
  // means that rounding may change the code.
  std::vector<double> margins;
};

class Reference {
 public:
  explicit Reference(const Problem& problem);

  // Lines 1 to 3 of Algorithm 1 at the current weights. The result is [worker][tensor].
  std::vector<std::vector<TernarizedTensor>> Ternarize(uint64_t step) const;
  // Lines 5 to 7 of Algorithm 1: the mean of the codes times their scalers, and the update with
  // momentum.
  void Update(uint64_t step, const std::vector<std::vector<TernarizedTensor>>& workers);

  const Tensors<double>& weights() const { return weights_; }

 private:
  TernarizedTensor ComputeGradientAndScaler(uint64_t step, int worker, size_t tensor) const;

  Problem problem_;
  Tensors<double> weights_;
  Tensors<double> velocity_;
};

}  // namespace tern::codec
