// Simulates the exchange of gradients with the servers. For each bucket (a group of neighbouring
// tensors) a worker computes scalers, the multipliers of the codes. If the workers share scalers,
// the bucket's server (its "home") collects them and returns the maximum. Then the worker encodes
// the bucket's chunks and pushes each chunk to a lane (a socket with a thread) of a server. The
// server adds up the pushes of a round and answers every worker. Only the simulation of a step uses
// this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "tools/forecast/cluster.h"
#include "tools/forecast/costs.h"

namespace tern::tools {

class SimulatedExchange {
 public:
  // Calls `on_answer` when a worker gets the answer to a chunk. The references outlive this object.
  SimulatedExchange(Cluster& cluster, const StepCosts& costs, const Profile& profile,
                    std::function<void(SimulatedWorker*)> on_answer)
      : cluster_(cluster), costs_(costs), profile_(profile), on_answer_(std::move(on_answer)) {}

  // Returns the range [first, second) of the buckets that a round exchanges.
  std::pair<size_t, size_t> BucketsOf(uint64_t round) const;
  // Passes the gradient of a bucket, or of all buckets of the round, to the worker's coder thread.
  void PushBucket(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void PushRound(SimulatedWorker* worker, uint64_t round);
  // Returns whether the worker has the answers to all chunks of a bucket.
  bool HasAnswer(SimulatedWorker* worker, uint64_t round, size_t bucket) const;

 private:
  void OnScalers(uint64_t round, size_t bucket);
  void Encode(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void PushChunk(SimulatedWorker* worker, uint64_t round, size_t bucket, size_t chunk);
  void SendPending(SimulatedWorker* worker, const ChunkCost& cost);
  void OnPush(SimulatedWorker* worker, uint64_t round, size_t bucket, size_t chunk);
  void Answer(SimulatedWorker* worker, uint64_t round, size_t bucket, size_t chunk);
  void OnAnswer(SimulatedWorker* worker, uint64_t round, size_t bucket, const ChunkCost& cost);
  void CountAnswer(SimulatedWorker* worker, uint64_t round);

  Cluster& cluster_;
  const StepCosts& costs_;
  const Profile& profile_;
  const std::function<void(SimulatedWorker*)> on_answer_;
  // The number of workers whose scalers have arrived, by round and bucket.
  std::map<std::pair<uint64_t, size_t>, uint32_t> scaler_counts_;
  // The number of workers whose push has been added, by round, bucket and chunk.
  std::map<std::tuple<uint64_t, size_t, size_t>, uint32_t> push_counts_;
  // The number of chunks of a round to which a worker has the answer, by round and worker.
  std::map<std::pair<uint64_t, const SimulatedWorker*>, size_t> answered_chunks_;
};

}  // namespace tern::tools
