// The toy job of the simulator: 2 buckets of 2 chunks; the state of a chunk is one integer (word).
// A worker's contribution is a function of the rank, the round, the cell, the state at which it
// computes and, for a push, the scalers. So a single wrong, lost or repeated contribution changes
// every later state. With a window of w rounds the gradient of round r is computed at the state
// after round r - w.
//
// If servers hold the state, they run the real lanes (server/data_lane.h), and a word has the bits
// of two floats (lane_job.h), which a push changes by the equation of the algorithm. With a window
// of 2 a push does not depend on the state, because a worker that goes back gets only the newest
// state and not the one before.
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

constexpr uint32_t kBuckets = 2, kChunks = 2;
using State = std::array<uint64_t, kBuckets * kChunks>;
using Report = std::function<void(const std::string& violation)>;

// The next round of the job after `applied`, and whether a bucket is exchanged in a round. With
// Schedule::parts, all buckets are exchanged once more after every second step and after the last
// one (round `last`).
uint64_t NextRound(const Schedule& schedule, uint64_t applied, uint64_t last);
bool HasPart(const Schedule& schedule, uint64_t round, uint32_t bucket);
// Whether figures are exchanged after round `applied`; they count as figures of the next round.
inline bool HasFiguresAfter(uint64_t applied) { return applied % 2 == 1; }
// With Schedule::skips: whether a worker skips a round.
bool Skips(uint32_t rank, uint64_t round);

Bytes EncodeWord(uint64_t value);
uint64_t DecodeWord(const Bytes& payload);  // the first word; 0 if there is none
Bytes EncodeWords(const std::vector<uint64_t>& words);
std::vector<uint64_t> DecodeWords(const Bytes& payload);
uint64_t Combine(uint64_t a, uint64_t b);
// What a worker needs to continue: the state after the last round, and the state before it.
struct Replica {
  State now{}, before{};
};
// A worker's checkpoint, on a disk that outlives its process.
struct ToyCheckpoint {
  pb::Checkpoint at;
  Replica replica;
};
struct CheckpointDisk {
  std::vector<ToyCheckpoint> points;  // the two newest, by ascending step
  uint64_t began = 0;                 // the run for which the disk was prepared
  bool torn = false;                  // also has a damaged one
  bool struck = false;                // a checkpoint on it was torn or lost
  // A worker that got State from another may lack a checkpoint that the others have. Until it has
  // written this many more, there may be no checkpoint that all workers have.
  int gap = 0;
};
inline std::vector<pb::Checkpoint> OffersOf(const CheckpointDisk& disk) {
  std::vector<pb::Checkpoint> offers;
  for (const ToyCheckpoint& one : disk.points) offers.push_back(one.at);
  return offers;
}
inline protocol::Saved SavedOn(const CheckpointDisk& disk) {
  protocol::Saved saved{OffersOf(disk), {}, disk.began};
  if (disk.torn) saved.unfit.set_sentence("a torn one");
  return saved;
}
Bytes EncodeReplica(const Replica& replica);
Replica DecodeReplica(const Bytes& bytes);

uint64_t ScaleOf(uint32_t rank, uint64_t round, uint32_t bucket, const State& state);
uint64_t PushOf(const Schedule& schedule, uint32_t rank, uint64_t round, uint32_t bucket,
                uint32_t chunk, const State& state, uint64_t scaled);
uint64_t DigestOfState(const State& state);

inline State InitialState(const Schedule& schedule) {
  return schedule.servers_keep() ? State{} : State{1, 2, 3, 4};
}

// If servers hold the state: the learning rate is kFirstRate at first, and is multiplied by
// kRateFactor after every kRateEvery steps.
constexpr double kFirstRate = 0.5, kRateFactor = 0.5;
constexpr uint64_t kRateEvery = 2;
double RateAt(uint64_t step);  // from 0
// The learning rate that answers of a round must carry.
double LearningRate(const Schedule& schedule, uint64_t round);
// A word of two floats, made of these bits.
uint64_t FloatsOf(uint64_t bits);
// These four treat words as pairs of floats. Moved: w - rate * mean of `given`.
uint64_t Moved(uint64_t word, const std::vector<uint64_t>& given, double rate);
// Drawn: w + kElastic * sum over x in `given` of (x - w).
constexpr double kElastic = 0.125;
uint64_t Drawn(uint64_t word, const std::vector<uint64_t>& given);
uint64_t Added(uint64_t word, uint64_t change);
uint64_t ChangeOf(uint64_t from, uint64_t to);
// The states after round 0, 1, ... if no fault strikes and every round waits for all workers.
std::vector<State> FaultFree(const Schedule& schedule);

class Layout {
 public:
  // The schedule outlives it.
  explicit Layout(const Schedule& schedule) : schedule_(schedule) {}
  protocol::LaneRef LaneOf(const protocol::Cell& cell) const;
  std::vector<protocol::Cell> CellsAt(protocol::LaneRef lane) const;
  // `report` is called if a rank is counted twice in a slot.
  std::vector<protocol::CellSpec> RoundCells(protocol::LaneRef lane, const Report* report) const;

 private:
  const Schedule& schedule_;
};

}  // namespace tern::sim
