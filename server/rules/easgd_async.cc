// Asynchronous elastic averaging SGD (EASGD with one worker at a time). A push is the worker's own
// weights x. The answer is the center variable (the server's weights) before the push, so that
// server and worker use the same difference:
//
//   center = center + alpha (x - center)      on the server
//   x      = x - alpha (x - old center)       on the worker, with the answer
#include <utility>

#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class EasgdAsync : public ClockRule {
 public:
  EasgdAsync(std::unique_ptr<CentralChunk> central, Rate rate)
      : ClockRule(std::move(central), std::move(rate)),
        alpha_(static_cast<float>(train().easgd_async().alpha())) {}

  Answer Pull(uint32_t rank, std::optional<uint64_t> held_version) override {
    if (unanswered_rank_ != rank) return ClockRule::Pull(rank, held_version);
    unanswered_rank_.reset();
    return Encode(rank, center_before_push_, held_version);
  }

 private:
  void ApplyPush(uint32_t rank, uint64_t, std::span<float> x) override {
    center_before_push_.assign(central().weights().begin(), central().weights().end());
    unanswered_rank_ = rank;
    central().MoveTowards(x, alpha_);
  }

  const float alpha_;
  std::vector<float> center_before_push_;
  // The worker whose push has no answer yet; nullopt: none.
  std::optional<uint32_t> unanswered_rank_;
};

}  // namespace

std::unique_ptr<ClockRule> MakeEasgdAsync(std::unique_ptr<CentralChunk> central, Rate rate) {
  return std::make_unique<EasgdAsync>(std::move(central), std::move(rate));
}

}  // namespace tern::server
