#include "client/train/open_round.h"

#include <utility>

#include "common/base/logging.h"

namespace tern::client {

OpenRound::OpenRound(const setup::Setup& setup, Replica& replica, Sums& sums, Progress& progress,
                     Wait wait, std::function<void(uint64_t)> applied)
    : setup_(setup),
      sums_(sums),
      progress_(progress),
      wait_(std::move(wait)),
      on_applied_(std::move(applied)),
      apply_(setup, replica, sums),
      buckets_of_(setup.plan.BucketsOfTensors()) {}

void OpenRound::Open(uint64_t round) {
  CHECK(!round_.has_value());
  round_ = round;
  applied_.assign(setup_.plan.buckets.size(), false);
  buckets_left_ = applied_.size();
}

bool OpenRound::HasArrived(uint32_t bucket) const {
  return sums_.Has(*round_, bucket) && sums_.has_learning_rate(*round_);
}

std::optional<uint32_t> OpenRound::NextToApply(uint32_t wanted) const {
  if (HasArrived(wanted)) return wanted;
  for (uint32_t b = 0; b < applied_.size(); ++b) {
    if (!applied_[b] && HasArrived(b)) return b;
  }
  return std::nullopt;
}

Status OpenRound::AwaitBucket(uint32_t bucket) {
  while (round_.has_value() && !applied_[bucket]) {
    TERN_RETURN_IF_ERROR(wait_([&] { return NextToApply(bucket).has_value(); }));
    TimeScope decode(progress_.decode);
    const uint32_t arrived = *NextToApply(bucket);
    TERN_RETURN_IF_ERROR(apply_.Run(*round_, arrived));
    applied_[arrived] = true;
    if (--buckets_left_ == 0) on_applied_(*std::exchange(round_, std::nullopt));
  }
  return Ok();
}

Status OpenRound::Need(uint32_t tensor) {
  for (const uint32_t bucket : buckets_of_[tensor]) TERN_RETURN_IF_ERROR(AwaitBucket(bucket));
  return Ok();
}

Status OpenRound::Finish() {
  if (!round_.has_value()) return Ok();
  if (apply_.by_bucket()) {
    for (uint32_t b = 0; b < applied_.size(); ++b) TERN_RETURN_IF_ERROR(AwaitBucket(b));
    return Ok();
  }
  TERN_RETURN_IF_ERROR(wait_([this] { return sums_.Has(*round_); }));
  TimeScope decode(progress_.decode);
  TERN_RETURN_IF_ERROR(apply_.Run(*round_));
  on_applied_(*std::exchange(round_, std::nullopt));
  return Ok();
}

}  // namespace tern::client
