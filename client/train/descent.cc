#include "client/train/descent.h"

#include <algorithm>

#include "client/train/host_arenas.h"
#include "common/base/trace.h"

namespace tern::client {

Descent::Descent(const setup::Setup& setup, Replica& replica, const update::Schedule& schedule)
    : setup_(setup),
      replica_(replica),
      schedule_(schedule),
      decays_(DecaysOf(setup, pb::WeightDecay::local)) {}

void Descent::MovePoint(uint64_t step) {
  const TraceSpan span("update");
  const update::Step update_step{schedule_.Rate(step - 1), step};
  for (uint32_t t = 0; t < decays_.size(); ++t) {
    const uint64_t begin = setup_.plan.tensor_begin[t];
    replica_.optimizer().Update(replica_.point() + begin, replica_.gradients() + begin, begin,
                                setup_.plan.tensor_count[t], update_step, decays_[t]);
  }
}

void Descent::ResetOptimizer() { replica_.ResetOptimizer(); }

}  // namespace tern::client
