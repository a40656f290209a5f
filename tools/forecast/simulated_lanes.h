// The servers' lanes in the simulation of a step. A lane is the state machine behind one socket of
// a server: a RoundLane, or a ClockLane for the pushes of a job without rounds. The simulation uses
// the same classes as a server, but sums and weights have lengths and no values. A call takes no
// virtual time; the caller adds the time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/bytes.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/lane.h"
#include "tools/forecast/costs.h"

namespace tern::tools {

// Returns as many zeros as the longest message of these costs has bytes. Payloads are slices of
// these zeros.
Bytes MakeZeros(const StepCosts& costs);
// Returns a payload of `bytes` bytes (rounded, at least 1), which stands for a message with its
// header. REQUIRES that `zeros` has at least as many bytes.
Bytes BlankPayload(const Bytes& zeros, double bytes);

// No process restarts, so each has one incarnation (the number that identifies a start). The set of
// members never changes, so it has one epoch (the number of the set).
inline constexpr uint64_t kOnlyIncarnation = 1, kOnlyEpoch = 1;

class SimulatedLanes {
 public:
  // `costs` must outlive this object. All workers are members of the job from the start.
  SimulatedLanes(const StepCosts& costs, uint32_t workers, const Bytes& zeros);

  static protocol::Peer PeerOf(uint32_t rank) { return rank + 1; }
  static uint32_t RankOf(protocol::Peer peer) { return static_cast<uint32_t>(peer - 1); }

  // By shard and lane; lane 0 is the control lane.
  const std::vector<std::vector<std::unique_ptr<protocol::Lane>>>& lanes() const { return lanes_; }
  // Passes a worker's message to a lane. Returns the lane's messages to workers.
  protocol::Sends OnMessage(protocol::LaneRef lane, uint32_t rank,
                            const protocol::Message& message);

 private:
  std::unique_ptr<protocol::Lane> MakeRoundLane(std::vector<protocol::CellSpec> cells) const;
  std::unique_ptr<protocol::Lane> MakeControlLane(uint32_t shard) const;
  std::unique_ptr<protocol::Lane> MakeDataLane(uint32_t shard, uint32_t lane) const;
  std::unique_ptr<protocol::Lane> MakeClockLane(uint32_t shard, uint32_t lane) const;
  void AddAllWorkers(protocol::Lane* lane, uint32_t lane_index) const;

  const StepCosts& costs_;
  const uint32_t num_workers_;
  const Bytes zeros_;
  std::vector<std::vector<std::unique_ptr<protocol::Lane>>> lanes_;  // By shard and lane.
};

}  // namespace tern::tools
