// n-softsync (staleness-aware ASGD): with N workers, the weights w change once per c = floor(N / n)
// pushes (at least 1), by the mean of the gradients g_i of these pushes, each multiplied by m_i:
//
//   m_i = 1 / max(1, staleness of g_i)    modulation: by_staleness
//   m_i = 1                               modulation: none
//   w   = optimizer(w, 1/c sum_i m_i g_i)
#include <algorithm>
#include <utility>

#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class Softsync : public ClockRule {
 public:
  Softsync(std::unique_ptr<CentralChunk> central, Rate rate)
      : ClockRule(std::move(central), std::move(rate)),
        pushes_per_update_(std::max<uint32_t>(1, workers() / std::max(1u, train().softsync().n()))),
        is_modulated_(train().softsync().modulation() == pb::Softsync::by_staleness),
        sum_(this->central().chunk().count) {}

  void AddState(SavedState* state) override {
    ClockRule::AddState(state);
    state->arrays.push_back({"gathered", sum_});
    state->numbers.push_back({"gathered", &num_gathered_});
  }

 private:
  void ApplyPush(uint32_t, uint64_t base, std::span<float> g) override {
    const uint64_t staleness = version() - base;
    const float m =
        is_modulated_ ? 1.f / static_cast<float>(std::max<uint64_t>(1, staleness)) : 1.f;
    for (size_t i = 0; i < g.size(); ++i) sum_[i] += m * g[i];
    if (++num_gathered_ < pushes_per_update_) return;
    for (float& v : sum_) v /= static_cast<float>(pushes_per_update_);
    central().ApplyGradient(sum_, learning_rate());
    std::fill(sum_.begin(), sum_.end(), 0.f);
    num_gathered_ = 0;
  }

  const uint64_t pushes_per_update_;  // c
  const bool is_modulated_;           // whether m_i depends on staleness
  std::vector<float> sum_;            // the sum of m_i g_i since the last update
  uint64_t num_gathered_ = 0;         // the number of pushes in sum_
};

}  // namespace

std::unique_ptr<ClockRule> MakeSoftsync(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<Softsync>(std::move(central), std::move(rate));
}

}  // namespace tern::server
