// Stale synchronous parallel: as asgd; who may run how far ahead is the lane's business. A push
// counts whole, or (push_weight: one_over_workers) one part of as many as there are workers, so
// that a clock of all workers moves the weights as far as one round of ssgd.
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
  // The rate is what is divided: so weight decay counts once a clock too.
  void Take(uint32_t, uint64_t, std::span<float> g) override {
    central().Apply(g, part_ * learning_rate());
  }

  const double part_;
};

}  // namespace

std::unique_ptr<ClockRule> MakeSsp(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<Ssp>(std::move(central), std::move(rate));
}

}  // namespace tern::server
