#include "client/train/asynchronous.h"

#include <algorithm>

#include "client/train/pull.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/base/trace.h"

namespace tern::client {

Status Asynchronous::Begin(uint64_t) {
  TERN_RETURN_IF_ERROR(Pull(context_, context_.replica.parameters(), false));
  first_clock_ = clock_ = context_.sums.counted_clock();
  if (clock_ > 0) LogInfo(Cat("continuing after exchange ", clock_, " of this rank"), Print::kYes);
  std::copy_n(context_.replica.parameters(), context_.setup.table.total, context_.replica.point());
  return Ok();
}

Status Asynchronous::Drain() {
  TERN_RETURN_IF_ERROR(Pull(context_, context_.replica.parameters(), false));
  if (context_.replica.average().empty()) return Ok();
  return Pull(context_, context_.replica.average().data(), true);
}

Status Asynchronous::Leave() {
  context_.coder.AnnounceParting(clock_ + 1);
  return AwaitExchange();
}

Status Asynchronous::AwaitExchange() {
  TERN_RETURN_IF_ERROR(AwaitSums(clock_ + 1));
  const TraceSpan span("end of round", {.round = clock_ + 1});
  context_.sums.DropRoundsUpTo(clock_);
  ++clock_;
  return Ok();
}

Status Asynchronous::MovePointToAnswer() {
  const TraceSpan span("decode, update", {.round = clock_});
  TERN_RETURN_IF_ERROR(InstallWeights(context_.replica.parameters()));
  if (context_.replica.point() != context_.replica.parameters())
    std::copy_n(context_.replica.parameters(), context_.setup.table.total,
                context_.replica.point());
  return Ok();
}

}  // namespace tern::client
