#include "client/train/open_round.h"

#include <utility>

#include "common/base/logging.h"

namespace tern::client {

OpenRound::OpenRound(const setup::Setup& setup, uint64_t steps, Replica& replica, Sums& sums,
                     Progress& progress, WaitFunction wait,
                     std::function<void(uint64_t)> on_applied)
    : setup_(setup),
      sums_(sums),
      progress_(progress),
      wait_(std::move(wait)),
      on_applied_(std::move(on_applied)),
      applier_(setup, steps, replica, sums),
      buckets_of_tensor_(setup.plan.BucketsOfTensors()) {}

void OpenRound::Open(uint64_t round, bool permits_all) {
  CHECK(!round_.has_value());
  round_ = round;
  is_permitted_.assign(setup_.plan.buckets.size(), permits_all);
  is_applied_.assign(setup_.plan.buckets.size(), false);
  buckets_left_ = is_applied_.size();
}

bool OpenRound::HasArrived(uint32_t bucket) const {
  return is_permitted_[bucket] && sums_.HasAnswers(*round_, bucket) &&
         sums_.has_learning_rate(*round_);
}

std::optional<uint32_t> OpenRound::NextToApply(uint32_t preferred) const {
  if (!is_applied_[preferred] && HasArrived(preferred)) return preferred;
  for (uint32_t b = 0; b < is_applied_.size(); ++b) {
    if (!is_applied_[b] && HasArrived(b)) return b;
  }
  return std::nullopt;
}

Status OpenRound::AwaitBucket(uint32_t bucket) {
  while (round_.has_value() && !is_applied_[bucket]) {
    // ApplyArrived may be called while this waits.
    const auto is_done = [&] {
      return !round_.has_value() || is_applied_[bucket] || NextToApply(bucket).has_value();
    };
    TERN_RETURN_IF_ERROR(wait_(is_done));
    if (round_.has_value() && !is_applied_[bucket])
      TERN_RETURN_IF_ERROR(ApplyBucket(*NextToApply(bucket)));
  }
  return Ok();
}

Status OpenRound::ApplyBucket(uint32_t bucket) {
  TimeScope decode_scope(progress_.decode_time);
  TERN_RETURN_IF_ERROR(applier_.ApplyBucket(*round_, bucket));
  is_applied_[bucket] = true;
  if (--buckets_left_ == 0) on_applied_(*std::exchange(round_, std::nullopt));
  return Ok();
}

Status OpenRound::ApplyArrived() {
  for (uint32_t b = 0; round_.has_value() && b < is_applied_.size(); ++b) {
    if (!is_applied_[b] && HasArrived(b)) TERN_RETURN_IF_ERROR(ApplyBucket(b));
  }
  return Ok();
}

Status OpenRound::AwaitTensor(uint32_t tensor) {
  for (const uint32_t bucket : buckets_of_tensor_[tensor])
    TERN_RETURN_IF_ERROR(AwaitBucket(bucket));
  return Ok();
}

Status OpenRound::Finish() {
  if (!round_.has_value()) return Ok();
  if (applier_.applies_by_bucket()) {
    for (uint32_t b = 0; b < is_applied_.size(); ++b) TERN_RETURN_IF_ERROR(AwaitBucket(b));
    return Ok();
  }
  TERN_RETURN_IF_ERROR(wait_([this] { return sums_.HasAnswers(*round_); }));
  TimeScope decode_scope(progress_.decode_time);
  TERN_RETURN_IF_ERROR(applier_.ApplyRound(*round_));
  on_applied_(*std::exchange(round_, std::nullopt));
  return Ok();
}

}  // namespace tern::client
