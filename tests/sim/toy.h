// The toy job of the simulator: 2 buckets of 2 chunks, a chunk's state one integer. What a worker
// contributes is a function of (rank, round, cell, the state that it computes at and, for a push,
// the scalers), so one wrong, lost or doubled contribution shows in every state after it. With a
// window of w rounds the gradient of round r is taken at the state after round r - w.
//
// Where servers hold the state, their lanes are the true ones (server/data_lane.h), and a word is
// the bits of two floats (lane_job.h). A push moves them by the equation of the algorithm. With a
// window of 2 it does not depend on them, since whoever goes back gets the newest ones alone.
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

// The round after `applied` where the job goes on, and whether a bucket has a part in it. In parts,
// after every second step and the last one (`last` round), all buckets are exchanged once more.
uint64_t NextRound(const Schedule& schedule, uint64_t applied, uint64_t last);
bool HasPart(const Schedule& schedule, uint64_t round, uint32_t bucket);
// Whether figures are exchanged after `applied`, as those of the next round.
inline bool HasFiguresAfter(uint64_t applied) { return applied % 2 == 1; }
// Where data are uneven: whether a worker takes no part in a round.
bool Skips(uint32_t rank, uint64_t round);

Bytes EncodeWord(uint64_t value);
uint64_t DecodeWord(const Bytes& payload);  // its first; 0 if there is none
Bytes EncodeWords(const std::vector<uint64_t>& words);
std::vector<uint64_t> DecodeWords(const Bytes& payload);
uint64_t Combine(uint64_t a, uint64_t b);
// What a worker needs to go on: the state after the last round and the one before.
struct Replica {
  State now{}, before{};
};
// A worker's checkpoint, on a disk that outlives its process.
struct ToyCheckpoint {
  pb::Checkpoint at;
  Replica replica;
};
struct CheckpointDisk {
  std::vector<ToyCheckpoint> points;  // the two newest, rising
  uint64_t began = 0;                 // the run that it was prepared for
  bool torn = false;                  // has one that is not whole, too
  bool struck = false;                // since then: something on it was torn or lost
  // Whose worker got State from another may have missed one that the others have: until it has
  // written so many more, all may have nothing in common.
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

// The learning rate where servers hold the state: kFirstRate, and kRateFactor times as much after
// every kRateEvery steps.
constexpr double kFirstRate = 0.5, kRateFactor = 0.5;
constexpr uint64_t kRateEvery = 2;
double RateAt(uint64_t step);  // from 0
// As answers of a round say it.
double LearningRate(const Schedule& schedule, uint64_t round);
// Two floats, from these bits.
uint64_t FloatsOf(uint64_t bits);
// Of words of two floats, each by each. w moved by the mean of `given`: w - rate * mean.
uint64_t Moved(uint64_t word, const std::vector<uint64_t>& given, double rate);
// w drawn to all of `given`: w + kElastic * sum of (x - w).
constexpr double kElastic = 0.125;
uint64_t Drawn(uint64_t word, const std::vector<uint64_t>& given);
uint64_t Added(uint64_t word, uint64_t change);
uint64_t ChangeOf(uint64_t from, uint64_t to);
// States after round 0, 1, ... where nothing fails and everybody is waited for.
std::vector<State> FaultFree(const Schedule& schedule);

class Layout {
 public:
  // The schedule outlives it.
  explicit Layout(const Schedule& schedule) : schedule_(schedule) {}
  protocol::LaneRef LaneOf(const protocol::Cell& cell) const;
  std::vector<protocol::Cell> CellsAt(protocol::LaneRef lane) const;
  // `report` hears of a rank that is counted twice in a slot.
  std::vector<protocol::CellSpec> RoundCells(protocol::LaneRef lane, const Report* report) const;

 private:
  const Schedule& schedule_;
};

}  // namespace tern::sim
