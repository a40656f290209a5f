// What is added up in each kind of cell.
#pragma once

#include <span>
#include <vector>

#include "common/protocol/plan.h"
#include "common/protocol/round_lane.h"

namespace tern::protocol {

// One maker a kind. Those of a lane may be put together otherwise: where servers hold the
// parameters, pushes have cells of the server's own.
//   scalers  the maximum, tensor by tensor, over whoever came
//   figures  FiguresOfAll, an entry a worker, empty where it has no part; waits for all in any case
//   pushes   the codecs' sums. Plan and chunk outlive the cell
CellSpec ScaleCell(uint32_t bucket, size_t tensors);
CellSpec FiguresCell(const ExchangePlan& plan, uint32_t which);
CellSpec PushCell(const ExchangePlan& plan, const Chunk& chunk);

// Cells of figures, by their chunk: of W and the losses, which tell who is there, and then of an
// evaluation that those share between them. Without rounds both have one round: when all have done
// their last step.
enum Figures : uint32_t { kCompare, kEvaluate };

// The cells of one lane of a shard: scalers of the buckets whose home it is and, on shard 0,
// figures, for lane 0; the chunks of the lane otherwise. The plan outlives the cells.
std::vector<CellSpec> CellsOfLane(const ExchangePlan& plan, uint32_t shard, uint32_t lane);

// By shard: whether it keeps something from round to round: parameters, or what codecs keep of
// their sums.
std::vector<bool> ShardsThatKeep(const ExchangePlan& plan);

// The lane that a cell's contributions go to.
struct LaneRef {
  uint32_t shard = 0, lane = 0;
  auto operator<=>(const LaneRef&) const = default;
};
LaneRef LaneOf(const ExchangePlan& plan, const Cell& cell);
// Whether the plan has this cell, and at this lane; any cell may be asked for.
bool IsAt(const ExchangePlan& plan, const Cell& cell, LaneRef lane);

// Whether `payload` could be a chunk's answer: the largest of the scalers that came along, if any
// do, and a row of sums over so many contributors (1 or more),
// one a segment; where servers hold the parameters, a row of coded weights.
Status CheckSums(const ExchangePlan& plan, const Chunk& chunk, const Bytes& payload,
                 uint32_t contributors);

// A row of `count` float32, little-endian; each finite and not negative, or kMismatch.
Result<std::vector<float>> ParseScalers(const Bytes& payload, size_t count);
// Those at the front of `bytes`.
Result<std::vector<float>> TakeScalers(std::span<const uint8_t> bytes, size_t count);
Bytes EncodeScalers(const std::vector<float>& scalers);

}  // namespace tern::protocol
