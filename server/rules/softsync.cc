// n-softsync (survey, section on staleness-aware ASGD): the weights change once per c = floor(N /
// n) pushes (N workers), by the mean of their gradients g_i, each weighted with m_i:
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
        group_(std::max<uint32_t>(1, workers() / std::max(1u, train().softsync().n()))),
        modulated_(train().softsync().modulation() == pb::Softsync::by_staleness),
        sum_(this->central().chunk().count) {}

  void AddState(SavedState* state) override {
    ClockRule::AddState(state);
    state->arrays.push_back({"gathered", sum_});
    state->numbers.push_back({"gathered", &gathered_});
  }

 private:
  void ApplyPush(uint32_t, uint64_t base, std::span<float> g) override {
    const uint64_t staleness = version() - base;
    const float m = modulated_ ? 1.f / static_cast<float>(std::max<uint64_t>(1, staleness)) : 1.f;
    for (size_t i = 0; i < g.size(); ++i) sum_[i] += m * g[i];
    if (++gathered_ < group_) return;
    for (float& v : sum_) v /= static_cast<float>(group_);
    central().Apply(sum_, learning_rate());
    std::fill(sum_.begin(), sum_.end(), 0.f);
    gathered_ = 0;
  }

  const uint64_t group_;  // c, the number of pushes per update
  const bool modulated_;
  std::vector<float> sum_;
  uint64_t gathered_ = 0;
};

}  // namespace

std::unique_ptr<ClockRule> MakeSoftsync(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<Softsync>(std::move(central), std::move(rate));
}

}  // namespace tern::server
