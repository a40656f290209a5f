// A small job whose server holds the weights (central parameters), and drills, which run the job's
// server code and its workers in one thread, without sockets. Gradients come from an analytic
// function, so that tests can compare with references in double precision. A lane is the protocol
// object of one server socket; this job has one.
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

// Makes a job with four workers, one server, a dense network of 803 parameters in chunks (pieces of
// the model) of at most 256 parameters, the codec fp32, and 40 steps. Each override is KEY=VALUE,
// as after the option --set.
std::unique_ptr<setup::Setup> MakeCentralJob(const std::vector<std::string>& overrides);

// Returns the gradient g_k = a_k (w_k - b_k(rank, step)) at the weights w, of a quadratic function
// that differs for every worker and step.
template <typename Float>
std::vector<Float> GradientAt(uint32_t rank, uint64_t step, const std::vector<Float>& w) {
  std::vector<Float> g(w.size());
  for (size_t k = 0; k < w.size(); ++k) {
    const auto index = static_cast<double>(k);
    const double a = 0.5 + 0.4 * std::sin(0.7 * index);
    const double b =
        std::cos(0.3 * index + rank) + 0.3 * std::sin(1.1 * index * static_cast<double>(step));
    g[k] = static_cast<Float>(a * (static_cast<double>(w[k]) - b));
  }
  return g;
}

// Returns the relative error |a - b| / |b| in the 2-norm.
double RelativeDistance(const std::vector<float>& a, const std::vector<double>& b);

std::vector<double> ToDoubles(const std::vector<float>& values);

// Encodes the values of one chunk as a worker pushes them. `values` has all elements of the model.
Bytes EncodePush(const setup::Setup& job, const protocol::Chunk& chunk,
                 const std::vector<float>& values, uint32_t rank, uint64_t round);
// Applies a server's answer to the chunk's elements of a worker's weights. `is_complete`:
// the payload has the complete weights in fp32, whatever the job's pull codec is.
void ApplyServerAnswer(const setup::Setup& job, const protocol::Chunk& chunk, bool is_complete,
                       const Bytes& payload, std::vector<float>* weights);

const std::vector<const protocol::Chunk*> ChunksOf(const setup::Setup& job);
Rate RateOf(const setup::Setup& job);

// The server's lane and the workers of a job without rounds, all in this thread. A worker's clock
// counts its pushes. A version counts the changes of a chunk's weights.
class ClockDrill {
 public:
  // `checkpoints`, which must outlive the drill, says where the lane writes checkpoints. Null: the
  // lane writes none.
  explicit ClockDrill(const setup::Setup& job, LaneCheckpoints* checkpoints = nullptr);

  // Worker `rank` pushes all chunks and applies the answers. The push may also release delayed
  // answers to other workers, which they apply.
  void Push(uint32_t rank, const std::vector<float>& values);
  // Makes the pushes number `begin` to `end` - 1 of a fixed random order of workers.
  void MakePushes(int begin, int end);
  // Worker `rank` pulls the newest weights. The request tells the server which version the worker
  // has.
  void Pull(uint32_t rank);
  // All workers send their hello, as they must at first and after the lane has gone back to a
  // checkpoint.
  void SendAllHellos();
  // A new process takes the place of worker `rank`. It has no weights, joins the job, and pulls.
  void Rejoin(uint32_t rank);
  // Copies the state of all workers from another drill.
  void CopyWorkersOf(const ClockDrill& other);
  // Worker `rank` pulls the moving average of the weights. Returns this average.
  std::vector<float> PullAverage(uint32_t rank);

  // A rank's weights after its newest answer; before the first answer, the initial weights.
  const std::vector<float>& weights_of(uint32_t rank) const { return weights_[rank]; }
  bool is_waiting(uint32_t rank) const { return is_waiting_[rank]; }
  bool has_stopped(uint32_t rank) const { return has_stopped_[rank]; }
  uint64_t clock(uint32_t rank) const { return clocks_[rank]; }
  // The size in bytes of all answers with weights since the newest Push, Pull or Rejoin began; and
  // whether the last of them had the complete weights in fp32.
  size_t answer_bytes() const { return answer_bytes_; }
  bool answers_are_complete() const { return answers_are_complete_; }
  CentralLane& central() { return *central_; }

 private:
  // Delivers the lane's messages to the workers.
  void DeliverAnswers(const protocol::Sends& sends);
  void SendHello(uint32_t rank);
  // `has_weights`: whether the worker has weights. The request then tells their version by chunk.
  void SendPull(uint32_t rank, bool has_weights);
  // Returns a message of worker `rank` about a chunk. The caller adds a push or a pull to the
  // message.
  protocol::Message MakeMessage(uint32_t rank, const protocol::Chunk& chunk) const;

  const setup::Setup& job_;
  LaneCheckpoints no_checkpoints_;
  std::unique_ptr<CentralLane> central_;
  pb::Members members_;
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<uint64_t>> versions_;  // By rank and chunk.
  std::vector<uint64_t> clocks_;
  std::vector<bool> is_waiting_, has_stopped_;
  std::vector<float> average_;
  size_t answer_bytes_ = 0;
  bool answers_are_complete_ = false;
};

// The server's code for each chunk, and the workers of a job with rounds, all in this thread.
class RoundDrill {
 public:
  explicit RoundDrill(const setup::Setup& job);
  // Makes a round in which worker ranks[i] pushes values[i] and other workers push nothing.
  void MakeRound(const std::vector<std::vector<float>>& values, const std::vector<uint32_t>& ranks);

  // The weights that every worker has.
  const std::vector<float>& weights() const { return weights_; }
  // The size in bytes of the newest round's answers to one worker, over all chunks.
  size_t answer_bytes() const { return answer_bytes_; }
  const std::vector<std::unique_ptr<CentralRounds>>& rounds_of_chunks() const {
    return rounds_of_chunks_;
  }

 private:
  const setup::Setup& job_;
  std::vector<std::unique_ptr<CentralRounds>> rounds_of_chunks_;
  std::vector<protocol::CellSpec> cell_specs_;  // by chunk: how its pushes are added and answered
  std::vector<float> weights_;
  size_t answer_bytes_ = 0;
};

// A pseudorandom sequence of ranks that depends only on the seed. Next returns a number below
// `bound`.
class RandomRanks {
 public:
  explicit RandomRanks(uint64_t seed) : state_(seed) {}
  uint32_t Next(uint32_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % bound);
  }

 private:
  uint64_t state_;
};

}  // namespace tern::server
