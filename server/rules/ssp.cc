// Stale synchronous parallel: the server applies w <- optimizer(w, g) to every push g. By delaying
// answers, ClockLane limits how many pushes a worker may be ahead of the slowest. With the job key
// push_weight: one_over_workers and N workers, the learning rate is divided by N, so that one push
// of each worker moves the weights as far as one round of synchronous SGD.
#include <utility>

#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class Ssp : public ClockRule {
 public:
  Ssp(std::unique_ptr<CentralChunk> central, Rate rate)
      : ClockRule(std::move(central), std::move(rate)),
        rate_factor_(train().ssp().push_weight() == pb::Ssp::one_over_workers ? 1.0 / workers()
                                                                              : 1.0) {}

 private:
  // Multiplies the learning rate and not the gradient by the factor, so that the weight decay of N
  // pushes together counts once.
  void ApplyPush(uint32_t, uint64_t, std::span<float> g) override {
    central().ApplyGradient(g, rate_factor_ * learning_rate());
  }

  const double rate_factor_;
};

}  // namespace

std::unique_ptr<ClockRule> MakeSsp(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<Ssp>(std::move(central), std::move(rate));
}

}  // namespace tern::server
