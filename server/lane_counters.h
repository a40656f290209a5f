// Copies a lane's counters to the process's metrics page. Used by the lane's thread alone.
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
  // Updates the page with the number of each rank's pushes that were dropped as too stale.
  void ExportDropped(const std::vector<uint64_t>& by_rank);

 private:
  Registry& registry_;
  const uint32_t lane_;
  Counter &counted_, &closed_, &repeated_, &stale_, &early_, &fenced_, &bad_, &restored_, &late_,
      &skipped_;
  Gauge& floor_;
  Histogram* staleness_ = nullptr;  // null in jobs with rounds
  std::vector<uint64_t> observed_;  // by bin: what was already added to staleness_
  std::vector<Counter*> dropped_;   // by rank
};

}  // namespace tern::server
