// The cells of a job: makes the CellSpec of each kind, and says which cell belongs to which lane.
#pragma once

#include <span>
#include <vector>

#include "common/protocol/plan/plan.h"
#include "common/protocol/rounds/cell_sum.h"

namespace tern::protocol {

// One function per kind of cell. (Where servers hold the parameters, server/central/ makes the
// cells for pushes.)
//
//   scalers  the maximum over the workers of each scaler; `tensors` is the number of scalers
//   figures  FiguresOfAll: an entry per worker, empty if it skips; always waits for all members
//   pushes   the sum as the codecs of the chunk's segments make it; plan and chunk outlive the cell
CellSpec ScaleCell(uint32_t bucket, size_t tensors);
CellSpec FiguresCell(const ExchangePlan& plan, uint32_t which);
CellSpec PushCell(const ExchangePlan& plan, const Chunk& chunk);

// The cells of figures; the value is Cell::chunk. kCompare exchanges the hash of the weights and
// the losses, and shows which workers are present; those workers divide an evaluation among them
// and exchange its results in kEvaluate. In a job without rounds each of the two has one round,
// after the last step of all workers.
enum Figures : uint32_t { kCompare, kEvaluate };

// The cells of one lane of a shard. Lane 0 has the scalers of the buckets whose home is this shard
// and, on shard 0, figures. Every other lane has its chunks. The plan outlives the cells.
std::vector<CellSpec> CellsOfLane(const ExchangePlan& plan, uint32_t shard, uint32_t lane);

// By shard: whether it keeps state from round to round: parameters, or what codecs keep between
// their sums.
std::vector<bool> ShardsThatKeep(const ExchangePlan& plan);

// The lane that receives a cell's contributions.
struct LaneRef {
  uint32_t shard = 0, lane = 0;
  auto operator<=>(const LaneRef&) const = default;
};
LaneRef LaneOf(const ExchangePlan& plan, const Cell& cell);
// Whether the plan has this cell at this lane. `cell` may be invalid; it comes from a peer.
bool IsAt(const ExchangePlan& plan, const Cell& cell, LaneRef lane);

// Checks that `payload` can be an answer of the chunk: the maximum scalers, if the chunk carries
// any, then per segment one sum over `contributors` workers (at least 1) or, where servers hold the
// parameters, coded weights.
Status CheckSums(const ExchangePlan& plan, const Chunk& chunk, const Bytes& payload,
                 uint32_t contributors);

// Parses exactly `count` scalers: float32, little-endian. kMismatch unless each is finite and not
// negative.
Result<std::vector<float>> ParseScalers(const Bytes& payload, size_t count);
// Parses `count` scalers at the front of `bytes`, which may be longer.
Result<std::vector<float>> TakeScalers(std::span<const uint8_t> bytes, size_t count);
Bytes EncodeScalers(const std::vector<float>& scalers);

}  // namespace tern::protocol
