// A local step of a worker on its own weights x (the point): x_{j+1} = x_j - U(g(x_j)), where g is
// the gradient and U the update of the job's optimizer with its learning-rate schedule.
#pragma once

#include "client/train/replica.h"
#include "common/update/schedule.h"
#include "setup/setup.h"
#include "setup/tensor_rates.h"

namespace tern::client {

class Descent {
 public:
  // The arguments outlive this object.
  Descent(const setup::Setup& setup, Replica& replica, const update::Schedule& schedule);

  // Uses the gradient in replica.gradients(), and may take its weight decay out of it. Steps count
  // from 1.
  void MovePoint(uint64_t step);

 private:
  const setup::Setup& setup_;
  Replica& replica_;
  const update::Schedule& schedule_;
  const setup::UpdateRates rates_;
};

}  // namespace tern::client
