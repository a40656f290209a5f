#include "setup/socket_limits.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/algorithm/elasticity.h"
#include "common/algorithm/facts.h"
#include "common/protocol/rounds/round_cell.h"

namespace tern::setup {

namespace {

uint32_t NumDataLanes(const Setup& setup) {
  const std::vector<uint32_t>& lanes = setup.plan.data_lanes;
  return std::accumulate(lanes.begin(), lanes.end(), uint32_t{0});
}

// `round_bytes`: what one worker sends to all shards in a round, or what all shards send to it.
bool SendsMuchAtOnce(const Setup& setup, uint64_t round_bytes) {
  constexpr uint64_t kLargeBurst = 512 << 10;  // more than the queues of many links hold
  return round_bytes / NumDataLanes(setup) >= kLargeBurst;
}

// How many cells (sums or weights of chunks, scalers of buckets, figures) the lane has.
size_t NumCells(const Setup& setup, uint32_t shard, uint32_t lane) {
  constexpr size_t kFiguresCells = 4;  // cells.h
  if (lane == 0) return setup.plan.buckets.size() + kFiguresCells;
  size_t num_cells = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) {
    num_cells += std::count_if(bucket.chunks.begin(), bucket.chunks.end(), [&](const auto& chunk) {
      return chunk.shard == shard && chunk.lane == lane;
    });
  }
  return num_cells;
}

// How many answers of one cell a worker may have asked for: the outcomes of the rounds that the
// lane keeps, the weights, and their average.
size_t MaxAnswersOfCell(const pb::Job& job) {
  const uint32_t window = algorithm::FactsOf(job).window;
  const bool is_elastic = algorithm::Elasticity::FromJob(job).has_unsolicited_outcomes();
  return 2 + (is_elastic ? protocol::MaxElasticSlots(window, protocol::kMaxAhead)
                         : 2 * size_t{window} + 2);
}

}  // namespace

int MaxQueuedMessages(const Setup& setup, uint32_t shard, uint32_t lane) {
  // Welcomes and refusals; on the control socket also pulses, echoes and pieces of State.
  const size_t num_others = lane == 0 ? 1000 : 64;
  constexpr size_t kMax = 100'000;
  const size_t num_answers = NumCells(setup, shard, lane) * MaxAnswersOfCell(setup.job);
  return static_cast<int>(std::min(kMax, 2 * num_answers + num_others));
}

net::Pacing ServerPacing(const Setup& setup, uint32_t shard) {
  const uint32_t num_connections = setup.plan.workers * setup.plan.data_lanes[shard];
  return {setup.job.servers(static_cast<int>(shard)).send_mbit() / num_connections,
          SendsMuchAtOnce(setup, protocol::CountRoundBytes(setup.plan).sum)};
}

net::Pacing WorkerPacing(const Setup& setup) {
  return {setup.job.workers().send_mbit() / NumDataLanes(setup),
          SendsMuchAtOnce(setup, protocol::CountRoundBytes(setup.plan).push)};
}

size_t MaxPayloadBytes(const Setup& setup, uint32_t lane) {
  const protocol::RoundBytes round_bytes = protocol::CountRoundBytes(setup.plan);
  constexpr size_t kStatePieceBytes = 256 << 10;  // the largest payload of a StatePiece message
  const size_t figures_bytes = setup.plan.workers * (setup.plan.max_figures_bytes() + 8);
  const size_t table_bytes = HasForeignTable(setup.job) ? kMaxTensorTableBytes : 0;
  return (lane == 0 ? std::max({kStatePieceBytes, figures_bytes, table_bytes,
                                static_cast<size_t>(round_bytes.scalers)})
                    : round_bytes.largest_payload) +
         (64 << 10);
}

}  // namespace tern::setup
