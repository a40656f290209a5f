// Copies the counters of a lane (one socket of a server shard, with its state machine) to the
// process's metrics page. Only the lane's thread uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/counters.h"
#include "common/protocol/rounds/lane.h"

namespace tern::server {

class LaneCounters {
 public:
  LaneCounters(Registry& registry, uint32_t lane);
  // Updates the page with the lane's current counters.
  void Export(const protocol::Lane& lane);
  // Updates the page with the number of pushes of each worker that were dropped as too stale. The
  // index of `by_rank` is the worker's rank.
  void ExportDropped(const std::vector<uint64_t>& by_rank);

 private:
  Registry& registry_;
  const uint32_t lane_;
  Counter &counted_contributions_, &closed_cells_, &repeated_contributions_, &refused_stale_,
      &refused_early_, &refused_not_member_, &refused_bad_, &restored_outcomes_,
      &late_contributions_, &skipped_contributions_, &host_sums_, &split_host_sums_;
  Gauge& floor_round_;                        // the newest round that every worker has applied
  Histogram* staleness_ = nullptr;            // of pushes; null in jobs with rounds
  std::vector<uint64_t> exported_staleness_;  // by bin: how many pushes were added to staleness_
  std::vector<Counter*> dropped_pushes_;      // by rank
};

}  // namespace tern::server
