// Applies the servers' answers of a round as they arrive, bucket by bucket (a bucket is a range of
// the model). W(r) are the weights after round r. The next forward pass may already run; it then
// calls AwaitTensor before a layer reads a tensor, and AwaitTensor waits until that tensor is
// updated. Threads: the compute thread.
//
//   no round --Open--> open --{ AwaitTensor | Finish: wait for a bucket, apply it }*--> no round
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "client/exchange/progress.h"
#include "client/exchange/sums.h"
#include "client/train/apply.h"
#include "client/train/replica.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

class OpenRound {
 public:
  // The type of Context::wait_until.
  using WaitFunction = std::function<Status(const std::function<bool()>& is_done)>;

  // `steps`: the job's length in steps. All references outlive this object. Calls
  // `on_applied(round)` when W(round) is in place.
  OpenRound(const setup::Setup& setup, uint64_t steps, Replica& replica, Sums& sums,
            Progress& progress, WaitFunction wait, std::function<void(uint64_t round)> on_applied);

  // Opens `round`. REQUIRES that no round is open, and that this worker has made all its
  // contributions to it.
  void Open(uint64_t round) { Open(round, true); }
  // The same while this worker still makes its contributions: a bucket is applied only after
  // Permit, even if the round has closed without this worker.
  void OpenEarly(uint64_t round) { Open(round, false); }
  void Permit(uint32_t bucket) { is_permitted_[bucket] = true; }
  // The open round, if there is one.
  std::optional<uint64_t> round() const { return round_; }
  // Whether buckets are applied one by one, so that AwaitTensor waits only for the buckets that
  // have elements of the tensor (RoundApplier::applies_by_bucket).
  bool applies_by_bucket() const { return applier_.applies_by_bucket(); }

  // Waits until the open round has been applied to the tensor. Returns at once if no round is open.
  // REQUIRES applies_by_bucket().
  Status AwaitTensor(uint32_t tensor);
  // Applies the buckets whose answers have arrived. REQUIRES applies_by_bucket().
  Status ApplyArrived();
  // Waits until the open round has been applied to all tensors. Works without applies_by_bucket(),
  // too.
  Status Finish();

 private:
  void Open(uint64_t round, bool permits_all);
  Status AwaitBucket(uint32_t bucket);
  Status ApplyBucket(uint32_t bucket);
  bool HasArrived(uint32_t bucket) const;
  // Returns `preferred` if its answers have arrived; else another bucket whose answers have arrived
  // and are not yet applied, if there is one.
  std::optional<uint32_t> NextToApply(uint32_t preferred) const;

  const setup::Setup& setup_;
  Sums& sums_;
  Progress& progress_;
  const WaitFunction wait_;
  const std::function<void(uint64_t)> on_applied_;
  RoundApplier applier_;
  // By tensor: the buckets that have its elements.
  std::vector<std::vector<uint32_t>> buckets_of_tensor_;
  std::optional<uint64_t> round_;
  std::vector<bool> is_permitted_;  // by bucket: whether the open round may be applied to it
  std::vector<bool> is_applied_;    // by bucket: whether the open round has been applied to it
  size_t buckets_left_ = 0;         // how many buckets are not yet applied
};

}  // namespace tern::client
