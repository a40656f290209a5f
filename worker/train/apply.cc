#include "worker/train/apply.h"

#include <algorithm>

#include "worker/train/gradient.h"

namespace tern::train {

Apply::Apply(const setup::Setup& setup, Replica& replica, const Sums& sums)
    : setup_(setup), replica_(replica), sums_(sums) {
  for (uint32_t t = 0; t < setup.table.parameters.size(); ++t)
    decay_.push_back(DecayOf(setup, t, pb::WeightDecay::local));
}

Status Apply::Run(uint64_t round) {
  if (setup_.plan.central) {
    TERN_RETURN_IF_ERROR(sums_.Install(round, replica_.parameters()));
    replica_.Average(0, setup_.table.total, round);
    return Ok();
  }
  const update::Step step{sums_.learning_rate(round), round};
  const Sums::Use update = [&](uint32_t t, uint64_t first, std::span<const float> mean) {
    replica_.Update(mean.data(), first, mean.size(), step, decay_[t]);
  };
  if (!replica_.needs_whole_tensors()) return sums_.Decode(round, update);
  float* const mean = replica_.scratch();
  std::fill_n(mean, setup_.table.total, 0.f);
  TERN_RETURN_IF_ERROR(
      sums_.Decode(round, [&](uint32_t, uint64_t first, std::span<const float> values) {
        std::copy(values.begin(), values.end(), mean + first);
      }));
  for (uint32_t t = 0; t < setup_.plan.tensor_count.size(); ++t)
    update(t, setup_.plan.tensor_begin[t],
           {mean + setup_.plan.tensor_begin[t], setup_.plan.tensor_count[t]});
  return Ok();
}

}  // namespace tern::train
