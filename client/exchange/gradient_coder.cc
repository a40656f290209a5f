#include "client/exchange/gradient_coder.h"

#include "common/algorithm/facts.h"
#include "common/base/text.h"

namespace tern::client {
namespace {

std::string WhatIsPushed(const pb::Job& job) {
  switch (algorithm::FactsOf(job).pushed_quantity) {
    case pb::AlgorithmTraits::gradient:
      return "the gradient of ";
    case pb::AlgorithmTraits::parameters:
      return "parameter ";
    case pb::AlgorithmTraits::change:
      break;
  }
  return "the change of ";
}

std::string OrOuterRate(const pb::Job& job) {
  const algorithm::Facts facts = algorithm::FactsOf(job);
  return facts.outer_optimizer == nullptr
             ? ""
             : Cat(", or ", facts.outer_optimizer_key, ".learning_rate");
}

}  // namespace

kernels::NoiseKey GradientCoder::NoiseKeyOf(uint64_t round) const {
  kernels::NoiseKey noise;
  noise.seed = setup_.job.seed();
  noise.rank = static_cast<uint16_t>(rank_);
  noise.round = round;
  return noise;
}

Status GradientCoder::CheckFinite(const kernels::Stats& stats, uint32_t tensor,
                                  uint64_t round) const {
  if (stats.is_finite) return Ok();
  return Status(Code::kDiverged, Cat(WhatIsPushed(setup_.job), setup_.table.parameters[tensor].name,
                                     " is not finite at round ", round, " on worker ", rank_,
                                     "; lower the learning rate", OrOuterRate(setup_.job)));
}

}  // namespace tern::client
