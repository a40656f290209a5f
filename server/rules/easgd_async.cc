// Asynchronous elastic averaging (survey equations 2 to 4, one worker at a time): a push is the
// worker's own weights x; the answer is the centre before the push, so that both use the old
// difference:
//
//   centre = centre + alpha (x - centre)      on the server
//   x      = x - alpha (x - old centre)       on the worker, with the answer
#include <utility>

#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class EasgdAsync : public ClockRule {
 public:
  EasgdAsync(std::unique_ptr<CentralChunk> central, Rate rate)
      : ClockRule(std::move(central), std::move(rate)),
        alpha_(static_cast<float>(train().easgd_async().alpha())) {}

  Answer Pull(uint32_t rank, std::optional<uint64_t> holds) override {
    if (pushed_by_ != rank) return ClockRule::Pull(rank, holds);
    pushed_by_.reset();
    return Encode(rank, before_, holds);
  }

 private:
  void Take(uint32_t rank, uint64_t, std::span<float> x) override {
    before_.assign(central().weights().begin(), central().weights().end());
    pushed_by_ = rank;
    central().MoveTowards(x, alpha_);
  }

  const float alpha_;
  std::vector<float> before_;          // the centre before the newest push,
  std::optional<uint32_t> pushed_by_;  // which was this rank's and has no answer yet
};

}  // namespace

std::unique_ptr<ClockRule> MakeEasgdAsync(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<EasgdAsync>(std::move(central), std::move(rate));
}

}  // namespace tern::server
