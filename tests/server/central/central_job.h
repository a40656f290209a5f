// A small job whose servers hold the parameters, with gradients of an analytic problem. For tests
// that compare with references in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/rounds/clock_lane.h"
#include "common/protocol/rounds/round_lane.h"
#include "common/update/schedule.h"
#include "server/central_lane.h"
#include "setup/setup.h"

namespace tern::server {

// Four workers, a dense net of 803 parameters in chunks of at most 256, codec fp32, one server with
// one data lane, 40 steps. `overrides`: KEY=VALUE, like tern's --set.
std::unique_ptr<setup::Setup> CentralJob(const std::vector<std::string>& overrides);

// The gradient of a quadratic problem, a different one for every worker and step: g_k = a_k (w_k -
// b_k(rank, step)).
template <typename Float>
std::vector<Float> GradientAt(uint32_t rank, uint64_t step, const std::vector<Float>& w) {
  std::vector<Float> g(w.size());
  for (size_t k = 0; k < w.size(); ++k) {
    const auto at = static_cast<double>(k);
    const double a = 0.5 + 0.4 * std::sin(0.7 * at);
    const double b =
        std::cos(0.3 * at + rank) + 0.3 * std::sin(1.1 * at * static_cast<double>(step));
    g[k] = static_cast<Float>(a * (static_cast<double>(w[k]) - b));
  }
  return g;
}

// The relative error |a - b| / |b| in 2-norms.
double RelativeDistance(const std::vector<float>& a, const std::vector<double>& b);

std::vector<double> InDouble(const std::vector<float>& values);

// A worker's push of one chunk: the chunk's range of the model's `values`.
Bytes EncodePush(const setup::Setup& job, const protocol::Chunk& chunk,
                 const std::vector<float>& values, uint32_t rank, uint64_t round);
// Applies an answer as a worker does: changes the chunk's range of `held`.
void TakeAnswer(const setup::Setup& job, const protocol::Chunk& chunk, bool whole,
                const Bytes& payload, std::vector<float>* held);

const std::vector<const protocol::Chunk*> ChunksOf(const setup::Setup& job);
Rate RateOf(const setup::Setup& job);

// The workers and the one lane of an asynchronous job, all in this thread.
class ClockDrill {
 public:
  // `checkpoints` must outlive the drill. Null: it uses checkpoints of its own, and begins no run.
  explicit ClockDrill(const setup::Setup& job, LaneCheckpoints* checkpoints = nullptr);

  // `rank` pushes all chunks and applies the answers. Other ranks whose delayed answers this
  // releases apply theirs.
  void Push(uint32_t rank, const std::vector<float>& values);
  // Makes pushes number `from` to `to` of a fixed random order of ranks.
  void PushOn(int from, int to);
  // The rank pulls the newest weights; the pull says which version it holds.
  void Pull(uint32_t rank);
  // All workers say hello to a lane that has gone back.
  void GreetAll();
  // A new incarnation of the rank, which holds no weights, joins and pulls.
  void Rejoin(uint32_t rank);
  // This server's workers are in the same state as another's.
  void TakeWorkersOf(const ClockDrill& other);
  std::vector<float> PullAverage(uint32_t rank);

  // A rank's weights after its newest answer; before the first answer, the initial weights.
  const std::vector<float>& held(uint32_t rank) const { return held_[rank]; }
  bool waiting(uint32_t rank) const { return waiting_[rank]; }
  bool stopped(uint32_t rank) const { return stopped_[rank]; }
  uint64_t clock(uint32_t rank) const { return clocks_[rank]; }
  // The bytes of the newest answers, over all chunks, and whether they were complete weights in
  // fp32.
  size_t answer_bytes() const { return answer_bytes_; }
  bool whole() const { return whole_; }
  CentralLane& central() { return *central_; }

 private:
  void Carry(const protocol::Sends& sends);
  void Greet(uint32_t rank);
  void PullAs(uint32_t rank, bool holds);
  // Makes a contribution whose form is not set yet.
  protocol::Message Say(uint32_t rank, const protocol::Chunk& chunk) const;

  const setup::Setup& job_;
  LaneCheckpoints unused_;
  std::unique_ptr<CentralLane> central_;
  pb::Members members_;
  std::vector<std::vector<float>> held_;
  std::vector<std::vector<uint64_t>> versions_;  // by rank, chunk
  std::vector<uint64_t> clocks_;
  std::vector<bool> waiting_, stopped_;
  std::vector<float> average_;
  size_t answer_bytes_ = 0;
  bool whole_ = false;
};

// The workers of a synchronous job and the cells of its one lane, all in this thread.
class RoundDrill {
 public:
  explicit RoundDrill(const setup::Setup& job);
  // Plays a round to which ranks[i] pushes values[i].
  void Round(const std::vector<std::vector<float>>& values, const std::vector<uint32_t>& ranks);

  // The weights that every worker holds.
  const std::vector<float>& held() const { return held_; }
  size_t answer_bytes() const { return answer_bytes_; }
  const std::vector<std::unique_ptr<CentralRounds>>& cells() const { return cells_; }

 private:
  const setup::Setup& job_;
  std::vector<std::unique_ptr<CentralRounds>> cells_;
  std::vector<protocol::CellSpec> specs_;
  std::vector<float> held_;
  size_t answer_bytes_ = 0;
};

// A fixed pseudo-random sequence of numbers below `bound`: the rank that pushes next.
class Order {
 public:
  explicit Order(uint64_t seed) : state_(seed) {}
  uint32_t Next(uint32_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % bound);
  }

 private:
  uint64_t state_;
};

}  // namespace tern::server
