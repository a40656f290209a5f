// The toy job of the simulator: 2 buckets of 2 chunks, a chunk's state one integer. What a worker
// contributes is a function of (rank, round, cell, the state that it computes at and, for a push, the
// scalers), so one wrong, lost or doubled contribution shows in every state after it. With a window of
// w rounds the gradient of round r is taken at the state after round r - w.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/protocol/cells.h"
#include "common/protocol/round_lane.h"

namespace tern::sim {

constexpr uint32_t kBuckets = 2, kChunks = 2;
using State = std::array<uint64_t, kBuckets * kChunks>;
using Report = std::function<void(const std::string& violation)>;

inline bool HasFigures(uint64_t round) { return round % 2 == 0; }
// Where data are uneven: whether a worker takes no part in a round.
bool Skips(uint32_t rank, uint64_t round);

Bytes EncodeWord(uint64_t value);
uint64_t DecodeWord(const Bytes& payload);  // 0 if it is not one
// What a worker needs to go on: the state after the last round and the one before.
struct Replica {
  State now{}, before{};
};
Bytes EncodeReplica(const Replica& replica);
Replica DecodeReplica(const Bytes& bytes);

uint64_t ScaleOf(uint32_t rank, uint64_t round, uint32_t bucket, const State& state);
uint64_t PushOf(uint32_t rank, uint64_t round, uint32_t bucket, uint32_t chunk, const State& state,
                uint64_t scaled);
uint64_t DigestOfState(const State& state);
void Apply(const std::array<uint64_t, kBuckets * kChunks>& sums, State* state);

// States after round 0, 1, ... `rounds` where nothing fails and everybody is waited for.
std::vector<State> FaultFree(uint32_t workers, uint64_t rounds, uint32_t window, bool skips);

class Layout {
 public:
  explicit Layout(std::vector<uint32_t> data_lanes) : data_lanes_(std::move(data_lanes)) {}
  protocol::LaneRef LaneOf(const protocol::Cell& cell) const;
  // `report` hears of a rank that is counted twice in a slot.
  std::vector<protocol::CellSpec> CellsOf(protocol::LaneRef lane, uint32_t workers,
                                          const Report* report) const;

 private:
  std::vector<uint32_t> data_lanes_;
};

}  // namespace tern::sim
