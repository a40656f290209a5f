#include "tests/common/codec/algorithm1_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tern::codec {

Reference::Reference(const Problem& problem) : problem_(problem) {
  for (size_t tensor = 0; tensor < problem.sizes.size(); ++tensor) {
    weights_.emplace_back(problem.sizes[tensor]);
    velocity_.emplace_back(problem.sizes[tensor]);
    for (size_t k = 0; k < weights_[tensor].size(); ++k) {
      weights_[tensor][k] = problem.InitialWeight(tensor, k);
    }
  }
}

// Line 2 of Algorithm 1 (the gradient), and worker i's scaler s_t^(i) of the clipped gradient (eq.
// 9 and its variants).
TernarizedTensor Reference::ComputeGradientAndScaler(uint64_t step, int worker,
                                                     size_t tensor) const {
  TernarizedTensor t;
  double mean = 0;
  double max_abs = 0;
  const std::vector<double>& w = weights_[tensor];
  const auto n = static_cast<double>(w.size());
  for (size_t k = 0; k < w.size(); ++k) {
    const double decay = problem_.DecayOf(tensor) * w[k];
    t.gradient.push_back(problem_.Gradient(step, worker, tensor, k, w[k]) + decay);
    mean += t.gradient[k] / n;
    max_abs = std::max(max_abs, std::abs(t.gradient[k]));
  }
  for (double g : t.gradient) t.sigma += (g - mean) * (g - mean) / n;
  t.sigma = std::sqrt(t.sigma);

  const double clip_limit = problem_.options.clip_sigma * t.sigma;
  t.clip = std::numeric_limits<double>::infinity();
  t.own_scaler = max_abs;
  if (t.sigma == 0 || problem_.options.clip == Clip::kNone) return t;
  if (problem_.options.clip == Clip::kOfficial) {
    t.own_scaler = clip_limit;
  } else {
    t.clip = clip_limit;
    t.own_scaler = std::min(max_abs, clip_limit);
  }
  return t;
}

std::vector<std::vector<TernarizedTensor>> Reference::Ternarize(uint64_t step) const {
  std::vector<std::vector<TernarizedTensor>> workers(problem_.workers);
  for (int i = 0; i < problem_.workers; ++i) {
    for (size_t tensor = 0; tensor < weights_.size(); ++tensor) {
      workers[i].push_back(ComputeGradientAndScaler(step, i, tensor));
    }
  }
  for (size_t tensor = 0; tensor < weights_.size(); ++tensor) {
    double shared_scaler = 0;  // s_t, the maximum of the workers' s_t^(i)
    for (const auto& worker : workers)
      shared_scaler = std::max(shared_scaler, worker[tensor].own_scaler);
    for (int i = 0; i < problem_.workers; ++i) {
      TernarizedTensor& t = workers[i][tensor];
      t.scaler = problem_.options.scaler_per_worker ? t.own_scaler : shared_scaler;
      kernels::NoiseKey key;
      key.seed = problem_.seed;
      key.rank = static_cast<uint16_t>(i);
      key.round = step;
      key.tensor = static_cast<uint32_t>(tensor);
      for (size_t k = 0; k < t.gradient.size(); ++k) {
        const double magnitude = std::min(std::abs(t.gradient[k]), t.clip);
        const double p = t.scaler == 0 ? 0 : magnitude / t.scaler;  // P(b = 1) of eq. 2
        const double u = kernels::Draw32(key, k) * 0x1p-32;
        const int sign = (t.gradient[k] > 0) - (t.gradient[k] < 0);
        t.codes.push_back(static_cast<int8_t>(u < p ? sign : 0));
        t.margins.push_back(std::abs(u - p));
      }
    }
  }
  return workers;
}

void Reference::Update(uint64_t step, const std::vector<std::vector<TernarizedTensor>>& workers) {
  const double progress = static_cast<double>(step) / static_cast<double>(problem_.steps);
  const double rate = problem_.learning_rate * std::sqrt(1 - progress);
  for (size_t tensor = 0; tensor < weights_.size(); ++tensor) {
    for (size_t k = 0; k < weights_[tensor].size(); ++k) {
      double mean = 0;  // line 7 of Algorithm 1
      for (const auto& worker : workers) {
        mean += worker[tensor].scaler * worker[tensor].codes[k] / problem_.workers;
      }
      double& v = velocity_[tensor][k];
      v = problem_.momentum * v + mean;
      weights_[tensor][k] -= rate * v;  // line 6 of Algorithm 1, with momentum
    }
  }
}

}  // namespace tern::codec
