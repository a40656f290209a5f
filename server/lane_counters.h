// What a lane has counted, on the metrics page.
#pragma once

#include <cstdint>

#include "common/base/counters.h"
#include "common/protocol/lane.h"

namespace tern::server {

class LaneCounters {
 public:
  LaneCounters(Registry& registry, uint32_t lane);
  // From the lane's thread, every now and then.
  void Export(const protocol::Lane& lane);

 private:
  Counter &counted_, &closed_, &repeated_, &stale_, &early_, &fenced_, &bad_, &restored_;
  Gauge& floor_;
};

}  // namespace tern::server
