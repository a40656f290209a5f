// The way of a bucket in the simulation of a step: scalers, codes and pushes to the servers, and
// their answers. Internal to the simulation.
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
  // Calls `on_answer` whenever worker->answers has changed. The references outlive this.
  SimulatedExchange(Cluster& cluster, const StepCosts& costs, const Profile& profile,
                    std::function<void(SimulatedWorker*)> on_answer)
      : cluster_(cluster), costs_(costs), profile_(profile), on_answer_(std::move(on_answer)) {}

  // The buckets [first, second) that a round exchanges.
  std::pair<size_t, size_t> BucketsOf(uint64_t round) const;
  // Hands the gradient of a bucket, or of all buckets of the round, to the worker's coder.
  void PushBucket(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void PushRound(SimulatedWorker* worker, uint64_t round);
  // Whether all chunks of a bucket have their answers.
  bool HasAnswer(SimulatedWorker* worker, uint64_t round, size_t bucket) const;

 private:
  void OnScale(uint64_t round, size_t bucket);
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
  // How many workers have sent: scalers by round and bucket, pushes by round, bucket and chunk.
  std::map<std::pair<uint64_t, size_t>, uint32_t> scales_;
  std::map<std::tuple<uint64_t, size_t, size_t>, uint32_t> pushes_;
  // For how many chunks of a round a worker has answers.
  std::map<std::pair<uint64_t, const SimulatedWorker*>, size_t> answered_;
};

}  // namespace tern::tools
