#include "server/rules/clock_rule.h"

#include <utility>

namespace tern::server {

ClockRule::ClockRule(std::unique_ptr<CentralChunk> central, Rate rate)
    : central_chunk_(std::move(central)),
      down_link_(central_chunk_->setup(), central_chunk_->chunk(),
                 central_chunk_->setup().plan.workers, central_chunk_->weights()),
      rate_(std::move(rate)),
      facts_(algorithm::FactsOf(central_chunk_->setup().job)),
      values_(central_chunk_->chunk().count) {}

Status ClockRule::Push(uint32_t rank, uint64_t base, const Bytes& payload) {
  TERN_RETURN_IF_ERROR(central_chunk_->DecodePush(payload, values_));
  ApplyPush(rank, base, values_);
  ++pushes_;
  return Ok();
}

protocol::ClockCell::Answer ClockRule::Pull(uint32_t rank, std::optional<uint64_t> held_version) {
  return Encode(rank, central_chunk_->weights(), held_version);
}

protocol::Cell ClockRule::cell() const {
  return {protocol::Kind::kPush, central_chunk_->chunk().bucket, central_chunk_->chunk().index};
}

double ClockRule::learning_rate() const { return rate_(facts_.StepsOfPushes(pushes_, workers())); }

void ClockRule::AddState(SavedState* state) {
  central_chunk_->AddState(state);
  down_link_.AddState(state);
  state->numbers.push_back({"pushes", &pushes_});
}

}  // namespace tern::server
