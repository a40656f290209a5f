// What is added up in each kind of cell.
#pragma once

#include <vector>

#include "common/protocol/lane.h"
#include "common/protocol/plan.h"

namespace tern::protocol {

// The cells of one lane of a shard: scalers of the buckets whose home it is and, on shard 0,
// figures, for lane 0; the chunks of the lane otherwise. The plan outlives the cells.
std::vector<CellSpec> CellsOfLane(const ExchangePlan& plan, uint32_t shard, uint32_t lane);

// The lane that a cell's contributions go to.
struct LaneRef {
  uint32_t shard = 0, lane = 0;
  auto operator<=>(const LaneRef&) const = default;
};
LaneRef LaneOf(const ExchangePlan& plan, const Cell& cell);

// A row of `count` float32, little-endian; each finite and not negative, or kMismatch.
Result<std::vector<float>> ParseScalers(const Bytes& payload, size_t count);
Bytes EncodeScalers(const std::vector<float>& scalers);

constexpr size_t kMaxFiguresBytes = 1024;

}  // namespace tern::protocol
