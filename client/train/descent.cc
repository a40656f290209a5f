#include "client/train/descent.h"

#include <algorithm>

#include "common/base/trace.h"
#include "kernels/update/optimizer.h"

namespace tern::client {

Descent::Descent(const setup::Setup& setup, Replica& replica, const update::Schedule& schedule)
    : setup_(setup),
      replica_(replica),
      schedule_(schedule),
      rates_(setup::UpdateRatesOf(setup.job, setup.table,
                                  replica.optimizer().needs_loss_gradient())) {}

void Descent::MovePoint(uint64_t step) {
  const TraceSpan span("update");
  const update::Step update_step{schedule_.Rate(step - 1), step};
  for (uint32_t t = 0; t < setup_.plan.tensor_begin.size(); ++t) {
    const uint64_t begin = setup_.plan.tensor_begin[t], count = setup_.plan.tensor_count[t];
    float* const w = replica_.point() + begin;
    float* const g = replica_.gradients() + begin;
    if (rates_.removed_decay[t] != 0) kernels::AddDecay(g, w, count, -rates_.removed_decay[t], g);
    replica_.optimizer().Update(w, g, begin, count, update_step, rates_.InStep(step, t));
  }
}

}  // namespace tern::client
