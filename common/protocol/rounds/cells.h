// The cells of a job. A cell is one reduction over the workers, and belongs to one lane (the state
// machine behind one socket of a server shard). This file makes the CellSpec of each kind of cell,
// and says which lane has which cell. Scalers are codecs' scale factors; figures are workers'
// metrics.
#pragma once

#include <span>
#include <vector>

#include "common/protocol/plan/plan.h"
#include "common/protocol/rounds/cell_sum.h"

namespace tern::protocol {

// One function per kind of cell. (Where servers hold the parameters, server/central/ makes the
// cells for pushes.)
//
//   MakeScaleCell    the maximum over the workers of each scaler; `num_scalers` is their number,
//                    and a scaler above `max_scaler` is refused
//   MakeFiguresCell  FiguresOfAll, which has an entry per worker, empty for a worker that skips;
//                    the cell always waits for all members
//   MakePushCell     the sum as the codecs of the chunk's segments make it; plan and chunk outlive
//                    the cell
CellSpec MakeScaleCell(uint32_t bucket, size_t num_scalers, float max_scaler);
CellSpec MakeFiguresCell(const ExchangePlan& plan, uint32_t which);
CellSpec MakePushCell(const ExchangePlan& plan, const Chunk& chunk);

// The cells of figures; the value is Cell::chunk. In kCompare, workers exchange the hash of their
// weights and their losses, and learn which workers are present. The present workers divide the
// evaluation among them and exchange the results in kEvaluate. After the job's last evaluation, the
// worker with the lowest rank writes the final weights, and tells the others in kWriteFirst whether
// it could. If it could not, or was lost, the others write them, and exchange in kWriteElsewhere
// who could. In a job without rounds each of the cells is used once at most, after the last step of
// all workers.
enum FiguresPurpose : uint32_t { kCompare, kEvaluate, kWriteFirst, kWriteElsewhere };

// Makes the cells of one lane of a shard. Lane 0 has the scalers of the buckets whose home is this
// shard and, on shard 0, figures. Any other lane has the pushes of its chunks. The plan outlives
// the cells.
std::vector<CellSpec> MakeCellsOfLane(const ExchangePlan& plan, uint32_t shard, uint32_t lane);

// Returns by shard whether the shard keeps state from round to round: parameters, or the memory
// that codecs keep from one sum to the next.
std::vector<bool> ShardsThatKeepState(const ExchangePlan& plan);

// Names a lane: the number of its shard, and its number in that shard.
struct LaneRef {
  uint32_t shard = 0, lane = 0;
  auto operator<=>(const LaneRef&) const = default;
};
// The lane that receives a cell's contributions.
LaneRef LaneOf(const ExchangePlan& plan, const Cell& cell);
// Whether the plan has this cell at this lane. `cell` comes from a peer, so it may be invalid.
bool IsCellOfLane(const ExchangePlan& plan, const Cell& cell, LaneRef lane);

// Checks that `payload` can be the answer to a push of the chunk. The payload has the maximum
// scalers, if the chunk carries scalers, and then for each segment one sum over `contributors`
// workers (at least 1) or, if servers hold the parameters, one code of weights or of their change.
Status CheckSums(const ExchangePlan& plan, const Chunk& chunk, const Bytes& payload,
                 uint32_t contributors);

// Parses exactly `count` scalers: float32, little-endian. kMismatch if the size is wrong, or a
// scaler is negative or not finite; kDiverged if a scaler is greater than `max_scaler`.
Result<std::vector<float>> ParseScalers(const Bytes& payload, size_t count, float max_scaler);
// Parses `count` scalers at the front of `bytes`, which may be longer.
Result<std::vector<float>> ParseLeadingScalers(std::span<const uint8_t> bytes, size_t count,
                                               float max_scaler);
Bytes EncodeScalers(const std::vector<float>& scalers);

}  // namespace tern::protocol
