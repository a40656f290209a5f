// The reductions of a job: what is added up in each kind of cell.
#pragma once

#include <span>
#include <vector>

#include "common/protocol/plan/plan.h"
#include "common/protocol/rounds/cell_sum.h"

namespace tern::protocol {

// One constructor per kind of cell. (Where servers hold the parameters, the server makes its own
// cells for pushes.)
//
//   scalers  the maximum of the contributions, tensor by tensor
//   figures  FiguresOfAll: an entry per worker, empty if it takes no part; always waits for all
//   pushes   the codecs' sums; plan and chunk outlive the cell
CellSpec ScaleCell(uint32_t bucket, size_t tensors);
CellSpec FiguresCell(const ExchangePlan& plan, uint32_t which);
CellSpec PushCell(const ExchangePlan& plan, const Chunk& chunk);

// The cells of figures, by their chunk: kCompare has the hash of W and the losses, and shows who is
// present; those workers then share an evaluation in kEvaluate. Without rounds each has one round,
// after everybody's last step.
enum Figures : uint32_t { kCompare, kEvaluate };

// The cells of one lane of a shard. Lane 0: the scalers of the buckets at home on this shard and,
// on shard 0, figures. Other lanes: the lane's chunks. The plan outlives the cells.
std::vector<CellSpec> CellsOfLane(const ExchangePlan& plan, uint32_t shard, uint32_t lane);

// By shard: whether it keeps state from round to round, which is parameters, or the memories of
// codecs for sums.
std::vector<bool> ShardsThatKeep(const ExchangePlan& plan);

// The lane that receives a cell's contributions.
struct LaneRef {
  uint32_t shard = 0, lane = 0;
  auto operator<=>(const LaneRef&) const = default;
};
LaneRef LaneOf(const ExchangePlan& plan, const Cell& cell);
// Whether the plan has this cell, at this lane; `cell` may be anything.
bool IsAt(const ExchangePlan& plan, const Cell& cell, LaneRef lane);

// Whether `payload` is a possible answer of a chunk: the maximum scalers, if the chunk carries any,
// then one sum over `contributors` (at least 1) per segment; where servers hold the parameters,
// coded weights instead of sums.
Status CheckSums(const ExchangePlan& plan, const Chunk& chunk, const Bytes& payload,
                 uint32_t contributors);

// Parses a row of `count` float32, little-endian. kMismatch unless each is finite and not negative.
Result<std::vector<float>> ParseScalers(const Bytes& payload, size_t count);
// Parses those at the front of `bytes`.
Result<std::vector<float>> TakeScalers(std::span<const uint8_t> bytes, size_t count);
Bytes EncodeScalers(const std::vector<float>& scalers);

}  // namespace tern::protocol
