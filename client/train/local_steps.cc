#include "client/train/local_steps.h"

#include <algorithm>

namespace tern::client {

LocalSteps::LocalSteps(const Context& context)
    : Algorithm(context),
      num_parameters_(context_.setup.table.total),
      descent_(context_.setup, context_.replica, context_.schedule) {}

Status LocalSteps::Begin(uint64_t applied) {
  TERN_RETURN_IF_ERROR(Algorithm::Begin(applied));
  std::copy_n(context_.replica.parameters(), num_parameters_, context_.replica.point());
  return Ok();
}

Status LocalSteps::Descend(uint64_t step) {
  if (!context_.gradient.has_samples())
    return Ok();  // this worker has no samples left in the epoch
  TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward());
  MovePoint(step);
  return Ok();
}

void LocalSteps::MovePoint(uint64_t step) {
  TimeScope decode_scope(context_.progress.decode_time);
  descent_.MovePoint(step);
}

}  // namespace tern::client
