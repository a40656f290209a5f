// A round whose answers are on their way: what has come is applied while the rest still travels,
// and, where the next forward runs meanwhile, each tensor just before the layer that reads it.
//
//   none --Open--> waiting --{ Need | Finish: wait for a bucket, apply it }*--> applied = none
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/train/apply.h"
#include "worker/train/progress.h"
#include "worker/train/replica.h"
#include "worker/train/sums.h"

namespace tern::train {

class OpenRound {
 public:
  using Wait = std::function<Status(const std::function<bool()>& done)>;  // as Context::wait

  // All outlive it. `applied(round)`: W(round) is in place.
  OpenRound(const setup::Setup& setup, Replica& replica, Sums& sums, Progress& progress, Wait wait,
            std::function<void(uint64_t round)> applied);

  // This worker has contributed to `round` what it will. REQUIRES none open.
  void Open(uint64_t round);
  // The round that is open.
  std::optional<uint64_t> round() const { return round_; }
  // Whether Need can wait for less than all of it (Apply::by_bucket).
  bool by_bucket() const { return apply_.by_bucket(); }

  // Waits until tensor t is that of the open round; of none, it is already. REQUIRES by_bucket().
  Status Need(uint32_t tensor);
  // The same of all tensors.
  Status Finish();

 private:
  Status AwaitBucket(uint32_t bucket);
  bool Here(uint32_t bucket) const;
  // A bucket that is here and not applied; `wanted` before others.
  std::optional<uint32_t> Next(uint32_t wanted) const;

  const setup::Setup& setup_;
  Sums& sums_;
  Progress& progress_;
  const Wait wait_;
  const std::function<void(uint64_t)> on_applied_;
  Apply apply_;
  std::vector<std::vector<uint32_t>> buckets_of_;  // by tensor
  std::optional<uint64_t> round_;
  std::vector<bool> applied_;  // by bucket
  size_t left_ = 0;            // buckets
};

}  // namespace tern::train
