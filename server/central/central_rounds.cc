#include "server/central/central_rounds.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/protocol/rounds/cells.h"

namespace tern::server {

namespace {

// Adds up the workers' pushes of one round with another CellSum. Close() changes the server's
// weights by the sum, and returns the new weights instead of the sum.
class CentralSum : public protocol::CellSum {
 public:
  CentralSum(std::unique_ptr<protocol::CellSum> sum, CentralRounds* rounds)
      : sum_(std::move(sum)), central_rounds_(rounds) {}

  Status Add(uint32_t rank, const Bytes& payload) override {
    TERN_RETURN_IF_ERROR(sum_->Add(rank, payload));
    ++contributors_;
    return Ok();
  }
  Bytes Close() override {
    return central_rounds_->Close(contributors_ == 0 ? Bytes() : sum_->Close(), contributors_);
  }

 private:
  std::unique_ptr<protocol::CellSum> sum_;
  CentralRounds* central_rounds_;
  uint32_t contributors_ = 0;
};

}  // namespace

Result<std::unique_ptr<CentralRounds>> CentralRounds::Make(const setup::Setup& setup,
                                                           const protocol::Chunk& chunk,
                                                           std::span<const float> initial,
                                                           Rate rate) {
  auto central_chunk = CentralChunk::Make(setup, chunk, initial);
  if (!central_chunk.ok()) return central_chunk.status();
  return std::unique_ptr<CentralRounds>(
      new CentralRounds(std::move(*central_chunk), std::move(rate)));
}

CentralRounds::CentralRounds(std::unique_ptr<CentralChunk> central_chunk, Rate rate)
    : central_chunk_(std::move(central_chunk)),
      down_link_(std::in_place, central_chunk_->setup(), central_chunk_->chunk(), 1,
                 central_chunk_->weights()),
      rate_(std::move(rate)),
      easgd_alpha_(algorithm::FactsOf(central_chunk_->setup().job).elastic_rate),
      mean_push_(central_chunk_->chunk().count) {}

protocol::Cell CentralRounds::cell() const {
  return {protocol::Kind::kPush, central_chunk_->chunk().bucket, central_chunk_->chunk().index};
}

protocol::CellSpec CentralRounds::DescribeCell(protocol::CellSpec sum) {
  protocol::CellSpec spec;
  spec.cell = cell();
  spec.open = [this, open = std::move(sum.open)](uint64_t round) {
    return std::make_unique<CentralSum>(open(round), this);
  };
  spec.check_outcome = [this](const Bytes& payload, uint32_t) {
    const protocol::Chunk& chunk = central_chunk_->chunk();
    if (payload.size() == chunk.count * sizeof(float))
      return Ok();  // weights in fp32, without a codec
    return protocol::CheckSums(central_chunk_->setup().plan, chunk, payload, 1);
  };
  spec.pull = [this](bool average) { return Pull(average); };
  spec.closes_every_round = true;
  return spec;
}

Bytes CentralRounds::Close(const Bytes& sum, uint32_t contributors) {
  ++round_;
  Bytes answer;
  if (contributors != 0) {
    // A sum of finite pushes may overflow. The weights then become NaN, and the workers that
    // receive them end the job.
    if (!central_chunk_->DecodeMean(sum, contributors, mean_push_).ok())
      std::fill(mean_push_.begin(), mean_push_.end(), std::numeric_limits<float>::quiet_NaN());
    if (easgd_alpha_.has_value()) {
      // With n contributors: alpha * sum over i of (x_i - w) = alpha * n * ((mean of the x_i) - w).
      central_chunk_->MoveTowards(
          mean_push_, static_cast<float>(*easgd_alpha_) * static_cast<float>(contributors));
    } else {
      central_chunk_->ApplyGradient(mean_push_, rate_(round_ - 1));
    }
    answer = down_link_->Encode(0, central_chunk_->weights(), round_, down_link_->sent_version(0))
                 .payload;
  }
  if (on_closed_) on_closed_(round_);
  return answer;
}

protocol::CellSpec::PullAnswer CentralRounds::Pull(bool average) {
  if (average) return {Fp32Bytes(central_chunk_->average()), true};
  // Before the first round the workers hold the initial weights exactly, not a decoded copy.
  if (round_ == 0) return {Fp32Bytes(central_chunk_->weights()), true};
  const protocol::ClockCell::Answer repeated_answer =
      down_link_->EncodeHeldWeights(0, central_chunk_->weights(), round_);
  return {repeated_answer.payload, repeated_answer.is_fp32};
}

Status CentralRounds::Restart(std::span<const float> initial) {
  auto central_chunk =
      CentralChunk::Make(central_chunk_->setup(), central_chunk_->chunk(), initial);
  if (!central_chunk.ok()) return central_chunk.status();
  central_chunk_ = std::move(*central_chunk);
  down_link_.emplace(central_chunk_->setup(), central_chunk_->chunk(), 1,
                     central_chunk_->weights());
  round_ = 0;
  return Ok();
}

void CentralRounds::AddState(SavedState* state) {
  central_chunk_->AddState(state);
  down_link_->AddState(state);
  state->numbers.push_back({"round", &round_});
}

}  // namespace tern::server
