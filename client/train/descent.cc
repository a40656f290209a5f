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
  const double learning_rate = schedule_.Rate(step - 1);
  for (uint32_t t = 0; t < setup_.plan.tensor_begin.size(); ++t) {
    const uint64_t begin = setup_.plan.tensor_begin[t], count = setup_.plan.tensor_count[t];
    float* const w = replica_.point();
    float* const g = replica_.gradients();
    if (rates_.removed_decay[t] != 0)
      kernels::AddDecay(g + begin, w + begin, count, -rates_.removed_decay[t], g + begin);
    const kernels::TensorRates rates = rates_.InStep(step, t);
    replica_.state_begins().Visit(
        begin, count, step, [&](size_t first, size_t n, uint64_t state_begin) {
          replica_.optimizer().Update(w + first, g + first, first, n,
                                      {learning_rate, step, state_begin}, rates);
        });
  }
}

}  // namespace tern::client
