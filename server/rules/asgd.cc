// Asynchronous SGD (Downpour): at every push, w <- optimizer(w, g), with whatever weights g was
// taken at. A push may be the sum of the gradients of some steps (push_every); one rate counts for
// them all.
#include <utility>

#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class Asgd : public ClockRule {
 public:
  using ClockRule::ClockRule;

 private:
  void Take(uint32_t, uint64_t, std::span<float> g) override {
    central().Apply(g, learning_rate());
  }
};

}  // namespace

std::unique_ptr<ClockRule> MakeAsgd(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<Asgd>(std::move(central), std::move(rate));
}

}  // namespace tern::server
