#include "setup/socket_limits.h"

#include <algorithm>
#include <numeric>
#include <vector>

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

}  // namespace

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
