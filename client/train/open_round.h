// A round whose answers are arriving: buckets are applied while others are still on their way, and,
// if the next forward runs meanwhile, each tensor just before the layer that reads it.
//
//   none --Open--> waiting --{ Need | Finish: wait for a bucket, apply it }*--> applied = none
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
  using Wait = std::function<Status(const std::function<bool()>& done)>;  // as in Context

  // All arguments outlive it. Calls `applied(round)` when W(round) is in place.
  OpenRound(const setup::Setup& setup, Replica& replica, Sums& sums, Progress& progress, Wait wait,
            std::function<void(uint64_t round)> applied);

  // This worker has made all its contributions to `round`. REQUIRES that no round is open.
  void Open(uint64_t round);
  // The open round, if there is one.
  std::optional<uint64_t> round() const { return round_; }
  // Whether Need can wait for less than the whole round (Apply::by_bucket).
  bool by_bucket() const { return apply_.by_bucket(); }

  // Waits until tensor t has its value of the open round; does nothing without one. REQUIRES
  // by_bucket().
  Status Need(uint32_t tensor);
  // The same for all tensors.
  Status Finish();

 private:
  Status AwaitBucket(uint32_t bucket);
  bool Here(uint32_t bucket) const;
  // A bucket that has arrived and is not applied; prefers `wanted`.
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

}  // namespace tern::client
