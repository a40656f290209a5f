#include "server/rules/clock_rule.h"

#include <utility>

namespace tern::server {

ClockRule::ClockRule(std::unique_ptr<CentralChunk> central, Rate rate)
    : central_(std::move(central)),
      down_link_(central_->setup(), central_->chunk(), central_->setup().plan.workers,
                 central_->weights()),
      rate_(std::move(rate)),
      facts_(algorithm::FactsOf(central_->setup().job)),
      values_(central_->chunk().count) {}

Status ClockRule::Push(uint32_t rank, uint64_t base, const Bytes& payload) {
  TERN_RETURN_IF_ERROR(central_->Decode(payload, values_));
  ApplyPush(rank, base, values_);
  ++pushes_;
  return Ok();
}

protocol::ClockCell::Answer ClockRule::Pull(uint32_t rank, std::optional<uint64_t> held_version) {
  return Encode(rank, central_->weights(), held_version);
}

protocol::Cell ClockRule::cell() const {
  return {protocol::Kind::kPush, central_->chunk().bucket, central_->chunk().index};
}

double ClockRule::learning_rate() const { return rate_(facts_.StepsOfPushes(pushes_, workers())); }

void ClockRule::AddState(SavedState* state) {
  central_->AddState(state);
  down_link_.AddState(state);
  state->numbers.push_back({"pushes", &pushes_});
}

}  // namespace tern::server
