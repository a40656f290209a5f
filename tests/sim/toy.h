// The toy job of the simulator. Its model has 2 buckets of 2 chunks, and the state (weights) of a
// chunk is one 64-bit integer, called a word. A cell is one reduction over the workers in a round:
// of a bucket's scalers, of a chunk's pushes, or of figures (the workers' metrics). In a job with
// rounds, a worker's scaler or push is a hash of the rank, the round, the cell, the state at which
// the worker computes and, for a push, the bucket's largest scaler. So a single wrong, lost or
// repeated contribution changes every later state. With a window of w open rounds, round r is
// computed at the state after round r - w.
//
// If the servers hold the weights, they run the real data lanes (server/data_lane.h): a word has
// the bits of two floats (lane_job.h), and pushes change it by the equation of the training
// algorithm. There, with a window of 2, a push does not depend on the state, because a worker that
// goes back to a checkpoint gets only the newest state and not the state before it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/protocol/members/recovery.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/round_lane.h"
#include "tests/sim/schedule.h"

namespace tern::sim {

constexpr uint32_t kNumBuckets = 2, kNumChunks = 2;
// One word for each chunk, at index bucket * kNumChunks + chunk.
using State = std::array<uint64_t, kNumBuckets * kNumChunks>;
// Is called with a description of what went wrong.
using Report = std::function<void(const std::string& violation)>;

// The number of the job's next round after round `applied`. `last` is the round of the job's last
// step. With Schedule::exchanges_parts, an additional round exchanges all buckets after every
// second step and after the last step.
uint64_t NextRound(const Schedule& schedule, uint64_t applied, uint64_t last);
// Whether the round exchanges the bucket.
bool IsExchanged(const Schedule& schedule, uint64_t round, uint32_t bucket);
// Whether figures are exchanged after round `applied`. Their round number is applied + 1.
inline bool HasFiguresAfter(uint64_t applied) { return applied % 2 == 1; }
// Whether a worker skips a round, in a job with Schedule::has_skips.
bool SkipsRound(uint32_t rank, uint64_t round);

Bytes EncodeWord(uint64_t value);
uint64_t DecodeWord(const Bytes& payload);  // the first word; 0 if there is none
Bytes EncodeWords(const std::vector<uint64_t>& words);
std::vector<uint64_t> DecodeWords(const Bytes& payload);
// Hashes two numbers into one.
uint64_t Combine(uint64_t a, uint64_t b);
// What a worker needs to continue: the state after its newest round, and the state before that
// round.
struct Replica {
  State newest{}, previous{};
};
Bytes EncodeReplica(const Replica& replica);
Replica DecodeReplica(const Bytes& bytes);

// What a rank contributes in a round: its scaler of a bucket, and its push of a chunk. `state` is
// the state at which the rank computes; `largest_scaler` is the largest scaler of all ranks.
uint64_t ScalerOf(uint32_t rank, uint64_t round, uint32_t bucket, const State& state);
uint64_t PushOf(const Schedule& schedule, uint32_t rank, uint64_t round, uint32_t bucket,
                uint32_t chunk, const State& state, uint64_t largest_scaler);
uint64_t DigestOfState(const State& state);

inline State InitialState(const Schedule& schedule) {
  return schedule.servers_hold_state() ? State{} : State{1, 2, 3, 4};
}

// In jobs whose servers hold the weights: the learning rate is kFirstRate at first, and is
// multiplied by kRateFactor after every kRateEvery steps.
constexpr double kFirstRate = 0.5, kRateFactor = 0.5;
constexpr uint64_t kRateEvery = 2;
// The learning rate of a step; steps count from 0.
double RateAt(uint64_t step);
// The learning rate that shard 0's answers to the pushes of a round must contain.
double LearningRate(const Schedule& schedule, uint64_t round);
// A word with the bits of two floats, each a small integer taken from `bits`.
uint64_t FloatsFromBits(uint64_t bits);
// The next four functions treat words as pairs of floats. ApplySgd returns word - rate * mean of
// `gradients`, the step of SGD with the pushed gradients.
uint64_t ApplySgd(uint64_t word, const std::vector<uint64_t>& gradients, double rate);
// Returns word + kElastic * sum over x in `pushed` of (x - word): the step of EASGD's central
// weights with the pushed weights.
constexpr double kElastic = 0.125;
uint64_t ApplyElastic(uint64_t word, const std::vector<uint64_t>& pushed);
// Returns word + change.
uint64_t AddFloats(uint64_t word, uint64_t change);
// Returns to - from.
uint64_t SubtractFloats(uint64_t from, uint64_t to);
// The states after round 0, 1, ... if no fault strikes and every round waits for all workers.
std::vector<State> FaultFreeStates(const Schedule& schedule);

// Says which lane of which shard serves each cell. Lane 0 of a shard is its control socket, lanes 1
// and up are its data sockets.
class Layout {
 public:
  // The schedule must outlive the layout.
  explicit Layout(const Schedule& schedule) : schedule_(schedule) {}
  protocol::LaneRef LaneOf(const protocol::Cell& cell) const;
  std::vector<protocol::Cell> CellsAt(protocol::LaneRef lane) const;
  // The cells of a lane, as the real RoundLane needs them. `report` is called if a rank is counted
  // twice in a slot (a cell in one round).
  std::vector<protocol::CellSpec> RoundCells(protocol::LaneRef lane, const Report* report) const;

 private:
  const Schedule& schedule_;
};

}  // namespace tern::sim
