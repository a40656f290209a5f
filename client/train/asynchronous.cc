#include "client/train/asynchronous.h"

#include <algorithm>

#include "client/train/pull.h"
#include "common/base/logging.h"

namespace tern::client {

Status Asynchronous::Begin(uint64_t) {
  TERN_RETURN_IF_ERROR(Pull(c_, c_.replica.parameters(), false));
  first_clock_ = clock_ = c_.sums.counted_clock();
  if (clock_ > 0) LOG(WARNING) << "continuing after exchange " << clock_ << " of this rank";
  std::copy_n(c_.replica.parameters(), c_.setup.table.total, c_.replica.point());
  return Ok();
}

Status Asynchronous::Drain() {
  TERN_RETURN_IF_ERROR(Pull(c_, c_.replica.parameters(), false));
  if (c_.replica.average().empty()) return Ok();
  return Pull(c_, c_.replica.average().data(), true);
}

Status Asynchronous::Leave() {
  c_.coder.Part(clock_ + 1);
  return AwaitExchange();
}

Status Asynchronous::AwaitExchange() {
  TERN_RETURN_IF_ERROR(AwaitSums(clock_ + 1));
  c_.sums.Drop(clock_);
  ++clock_;
  return Ok();
}

Status Asynchronous::MovePointToAnswer() {
  TERN_RETURN_IF_ERROR(Install(c_.replica.parameters()));
  if (c_.replica.point() != c_.replica.parameters())
    std::copy_n(c_.replica.parameters(), c_.setup.table.total, c_.replica.point());
  return Ok();
}

}  // namespace tern::client
