#include "client/train/local_steps.h"

#include <algorithm>

namespace tern::client {

LocalSteps::LocalSteps(const Context& context)
    : Algorithm(context),
      size_(c_.setup.table.total),
      descent_(c_.setup, c_.replica, c_.schedule) {}

Status LocalSteps::Begin(uint64_t applied) {
  TERN_RETURN_IF_ERROR(Algorithm::Begin(applied));
  std::copy_n(c_.replica.parameters(), size_, c_.replica.point());
  return Ok();
}

Status LocalSteps::Descend(uint64_t step) {
  if (!c_.gradient.has_samples()) return Ok();  // this worker has no samples left in the epoch
  TERN_RETURN_IF_ERROR(c_.gradient.ForwardBackward());
  MovePoint(step);
  return Ok();
}

void LocalSteps::MovePoint(uint64_t step) {
  TimeScope decode(c_.progress.decode);
  descent_.MovePoint(step);
}

}  // namespace tern::client
