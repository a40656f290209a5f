// Stale synchronous parallel: a push is applied as in asgd; ClockLane bounds how far a worker may
// be ahead. With push_weight: one_over_workers, a push counts 1/N for N workers, so that one clock
// of all workers moves the weights as far as one round of ssgd.
#include <utility>

#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class Ssp : public ClockRule {
 public:
  Ssp(std::unique_ptr<CentralChunk> central, Rate rate)
      : ClockRule(std::move(central), std::move(rate)),
        part_(train().ssp().push_weight() == pb::Ssp::one_over_workers ? 1.0 / workers() : 1.0) {}

 private:
  // Divides the learning rate and not the gradient, so that weight decay also counts once per
  // clock.
  void ApplyPush(uint32_t, uint64_t, std::span<float> g) override {
    central().Apply(g, part_ * learning_rate());
  }

  const double part_;
};

}  // namespace

std::unique_ptr<ClockRule> MakeSsp(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<Ssp>(std::move(central), std::move(rate));
}

}  // namespace tern::server
