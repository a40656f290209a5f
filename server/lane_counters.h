// A lane's counters on the metrics page.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/counters.h"
#include "common/protocol/rounds/lane.h"

namespace tern::server {

class LaneCounters {
 public:
  LaneCounters(Registry& registry, uint32_t lane);
  // Called from the lane's thread from time to time.
  void Export(const protocol::Lane& lane);
  // Pushes dropped for their staleness, by rank.
  void ExportDropped(const std::vector<uint64_t>& by_rank);

 private:
  Registry& registry_;
  const uint32_t lane_;
  Counter &counted_, &closed_, &repeated_, &stale_, &early_, &fenced_, &bad_, &restored_, &late_,
      &skipped_;
  Gauge& floor_;
  Histogram* staleness_ = nullptr;  // lanes without rounds
  std::vector<uint64_t> observed_;  // already in staleness_
  std::vector<Counter*> dropped_;   // by rank
};

}  // namespace tern::server
