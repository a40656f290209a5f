// Asynchronous SGD (Downpour): the server applies w <- optimizer(w, g) to every push g, however old
// the weights are at which g was computed. With the job key push_every, a push is the sum of the
// gradients of several steps, and one learning rate applies to the sum. The optimizer adds a local
// weight decay to the sum as often as there are steps in it (central.cc).
#include <utility>

#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class Asgd : public ClockRule {
 public:
  using ClockRule::ClockRule;

 private:
  void ApplyPush(uint32_t, uint64_t, std::span<float> g) override {
    central().ApplyGradient(g, learning_rate());
  }
};

}  // namespace

std::unique_ptr<ClockRule> MakeAsgd(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<Asgd>(std::move(central), std::move(rate));
}

}  // namespace tern::server
