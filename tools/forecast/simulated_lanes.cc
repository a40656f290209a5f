#include "tools/forecast/simulated_lanes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <utility>

#include "common/protocol/rounds/clock_lane.h"
#include "common/protocol/rounds/round_lane.h"

namespace tern::tools {

namespace {

using protocol::Cell;
using protocol::Kind;

// A sum without values: accepts every push or scaler; the answer has the right length.
class BlankSum : public protocol::CellSum {
 public:
  explicit BlankSum(Bytes answer) : answer_(std::move(answer)) {}
  Status Add(uint32_t, const Bytes&) override { return Ok(); }
  Bytes Close() override { return answer_; }

 private:
  const Bytes answer_;
};

// Weights without values: every push makes a new version, and every answer has the right length.
class BlankWeights : public protocol::ClockCell {
 public:
  explicit BlankWeights(Bytes answer) : answer_(std::move(answer)) {}
  Status Push(uint32_t, uint64_t, const Bytes&) override {
    ++version_;
    return Ok();
  }
  uint64_t version() const override { return version_; }
  Answer Pull(uint32_t, std::optional<uint64_t>) override { return {answer_}; }
  Bytes Average() const override { return answer_; }

 private:
  const Bytes answer_;
  uint64_t version_ = 0;
};

// Returns a cell whose sums have no values. In a cell a lane combines over the workers the pushes
// of one chunk, or the scalers of one bucket.
protocol::CellSpec MakeBlankCell(const Cell& cell, const Bytes& answer) {
  protocol::CellSpec spec;
  spec.cell = cell;
  spec.open = [answer](uint64_t) { return std::make_unique<BlankSum>(answer); };
  spec.check_outcome = [](const Bytes&, uint32_t) { return Ok(); };
  return spec;
}

using ChunkVisitor = std::function<void(const Cell&, const ChunkCost&)>;
void ForEachChunkOf(const StepCosts& costs, uint32_t shard, uint32_t lane,
                    const ChunkVisitor& visit) {
  for (uint32_t b = 0; b < costs.buckets.size(); ++b) {
    const std::vector<ChunkCost>& chunks = costs.buckets[b].chunks;
    for (uint32_t c = 0; c < chunks.size(); ++c) {
      if (chunks[c].shard == shard && chunks[c].lane + 1 == lane)
        visit({Kind::kPush, b, c}, chunks[c]);
    }
  }
}

}  // namespace

Bytes MakeZeros(const StepCosts& costs) {
  double max_bytes = 1;
  for (const BucketCost& bucket : costs.buckets) {
    max_bytes = std::max({max_bytes, bucket.scale_bytes, bucket.scaled_bytes});
    for (const ChunkCost& chunk : bucket.chunks)
      max_bytes = std::max({max_bytes, chunk.push_bytes, chunk.sum_bytes});
  }
  const auto num_zeros = static_cast<size_t>(std::ceil(max_bytes));
  // With calloc, pages that nobody touches take no memory.
  void* const memory = std::calloc(num_zeros, 1);
  return Bytes::Share(static_cast<const uint8_t*>(memory), num_zeros,
                      [memory] { std::free(memory); });
}

Bytes BlankPayload(const Bytes& zeros, double bytes) {
  return zeros.Slice(0, static_cast<size_t>(std::max<long>(1, std::lround(bytes))));
}

SimulatedLanes::SimulatedLanes(const StepCosts& costs, uint32_t workers, const Bytes& zeros)
    : costs_(costs), num_workers_(workers), zeros_(zeros) {
  for (uint32_t shard = 0; shard < costs.lane_counts.size(); ++shard) {
    auto& lanes_of_shard = lanes_.emplace_back();
    lanes_of_shard.push_back(MakeControlLane(shard));
    for (uint32_t lane = 1; lane <= costs.lane_counts[shard]; ++lane) {
      lanes_of_shard.push_back(costs.pattern.has_rounds ? MakeDataLane(shard, lane)
                                                        : MakeClockLane(shard, lane));
    }
    for (uint32_t lane = 0; lane < lanes_of_shard.size(); ++lane)
      AddAllWorkers(lanes_of_shard[lane].get(), lane);
  }
}

std::unique_ptr<protocol::Lane> SimulatedLanes::MakeRoundLane(
    std::vector<protocol::CellSpec> cells) const {
  protocol::RoundLaneOptions options;
  options.workers = num_workers_;
  options.window = static_cast<uint32_t>(1 + costs_.pattern.lag);
  options.quorum = costs_.pattern.quorum < num_workers_ ? costs_.pattern.quorum : 0;
  options.incarnation = kOnlyIncarnation;
  return std::make_unique<protocol::RoundLane>(std::move(options), std::move(cells));
}

std::unique_ptr<protocol::Lane> SimulatedLanes::MakeControlLane(uint32_t shard) const {
  std::vector<protocol::CellSpec> cells;
  for (uint32_t b = 0; b < costs_.buckets.size(); ++b) {
    const BucketCost& bucket = costs_.buckets[b];
    if (bucket.scale_bytes > 0 && bucket.home_shard == shard)
      cells.push_back(
          MakeBlankCell({Kind::kScale, b, 0}, BlankPayload(zeros_, bucket.scaled_bytes)));
  }
  return MakeRoundLane(std::move(cells));
}

std::unique_ptr<protocol::Lane> SimulatedLanes::MakeDataLane(uint32_t shard, uint32_t lane) const {
  std::vector<protocol::CellSpec> cells;
  ForEachChunkOf(costs_, shard, lane, [&](const Cell& cell, const ChunkCost& chunk) {
    cells.push_back(MakeBlankCell(cell, BlankPayload(zeros_, chunk.sum_bytes)));
  });
  return MakeRoundLane(std::move(cells));
}

std::unique_ptr<protocol::Lane> SimulatedLanes::MakeClockLane(uint32_t shard, uint32_t lane) const {
  std::vector<protocol::ClockCellSpec> cells;
  ForEachChunkOf(costs_, shard, lane, [&](const Cell& cell, const ChunkCost& chunk) {
    cells.push_back({cell, std::make_unique<BlankWeights>(BlankPayload(zeros_, chunk.sum_bytes))});
  });
  protocol::ClockLaneOptions options;
  options.workers = num_workers_;
  options.incarnation = kOnlyIncarnation;
  // The workers push without end.
  options.num_pushes = [](uint64_t) { return std::numeric_limits<uint64_t>::max(); };
  return std::make_unique<protocol::ClockLane>(std::move(options), std::move(cells));
}

// Tells the lane that all workers are members of the job, and passes a hello of each worker to it.
void SimulatedLanes::AddAllWorkers(protocol::Lane* lane, uint32_t lane_index) const {
  protocol::Sends ignored_answers;
  pb::Members members;
  members.set_epoch(kOnlyEpoch);
  for (uint32_t rank = 0; rank < num_workers_; ++rank) members.add_incarnations(kOnlyIncarnation);
  lane->OnMembers(members, &ignored_answers);
  for (uint32_t rank = 0; rank < num_workers_; ++rank) {
    pb::Hello hello;
    hello.set_rank(rank);
    hello.set_incarnation(kOnlyIncarnation);
    hello.set_lane(lane_index);
    lane->OnHello(PeerOf(rank), hello, &ignored_answers);
  }
}

protocol::Sends SimulatedLanes::OnMessage(protocol::LaneRef lane, uint32_t rank,
                                          const protocol::Message& message) {
  protocol::Sends messages_to_workers;
  lanes_[lane.shard][lane.lane]->OnMessage(PeerOf(rank), message, &messages_to_workers);
  return messages_to_workers;
}

}  // namespace tern::tools
