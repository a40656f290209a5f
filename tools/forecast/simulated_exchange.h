// Simulates the exchange of gradients with the servers. The workers' side (Exchange) and the
// servers' side (lanes) are the protocol's own state machines, as daemons run them; the simulation
// adds the time that computations and messages take. For each bucket (a group of neighbouring
// tensors) a worker computes scalers, the multipliers of the codes. If the workers share scalers,
// one server, the bucket's home, returns their maximum. Then the worker encodes the bucket's
// chunks and pushes each chunk to a lane (a socket with a thread) of a server, which answers. Only
// the simulation of a step uses this.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/protocol/rounds/exchange.h"
#include "tools/forecast/cluster.h"
#include "tools/forecast/costs.h"
#include "tools/forecast/simulated_lanes.h"

namespace tern::tools {

class SimulatedExchange {
 public:
  // Calls `on_answer` when a worker gets the answer to a chunk. The references must outlive this
  // object.
  SimulatedExchange(Cluster& cluster, const StepCosts& costs, const Profile& profile,
                    std::function<void(SimulatedWorker*)> on_answer);

  // Returns the range [first, second) of the buckets that a round exchanges.
  std::pair<size_t, size_t> BucketRangeOf(uint64_t round) const;
  // Passes the gradient of a bucket, or of all buckets of the round, to the worker's coder thread.
  void PushBucket(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void PushRound(SimulatedWorker* worker, uint64_t round);
  // Asks the servers for the weights of all buckets, before the worker pushes this round. Their
  // answers have the number kPullRound instead of a round's.
  void PullWeights(SimulatedWorker* worker, uint64_t round);
  static constexpr uint64_t kPullRound = 0;
  // Returns whether the worker has the answers to all chunks of a bucket.
  bool HasAnswer(SimulatedWorker* worker, uint64_t round, size_t bucket) const;
  // To be called when the worker has applied the answers of this round and of all rounds before.
  // Deletes the answers of this round. In a job with rounds, the worker's next messages tell the
  // servers that it has applied them.
  void OnRoundApplied(SimulatedWorker* worker, uint64_t round);

 private:
  // A worker's state of a round whose answers it has not applied.
  struct OpenRound {
    struct ScalerState {
      bool has_own_scalers = false;     // The worker has computed its scalers of the bucket.
      bool has_shared_scalers = false;  // The maximum over the workers has arrived.
    };
    std::map<size_t, ScalerState> scaler_states;  // By bucket.
    size_t num_answered_chunks = 0;               // The number of chunks with an answer.
  };
  struct WorkerClient {
    protocol::Exchange exchange;
    std::map<uint64_t, OpenRound> open_rounds;  // By the round's number.
  };

  protocol::Time Now() const;
  WorkerClient& ClientOf(const SimulatedWorker* worker) { return clients_[worker->rank]; }

  void OnBucketPrepared(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void EncodeIfScalersAreKnown(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void EncodeBucket(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void PushChunk(SimulatedWorker* worker, uint64_t round, size_t bucket, size_t chunk);
  void SendContribution(SimulatedWorker* worker, const protocol::Cell& cell, protocol::LaneRef lane,
                        uint64_t round, double bytes);
  void Contribute(SimulatedWorker* worker, const protocol::Cell& cell, protocol::LaneRef lane,
                  protocol::Contribution contribution);
  void SendToServers(SimulatedWorker* worker,
                     const std::vector<protocol::Exchange::Outgoing>& messages);

  // The next four functions are the work of a server's lane, or of its control thread.
  void OnContribution(SimulatedWorker* worker, protocol::LaneRef lane,
                      const protocol::Message& message);
  void HandleInLane(SimulatedWorker* worker, protocol::LaneRef lane,
                    const protocol::Message& message);
  void SendToWorkers(protocol::LaneRef lane, const protocol::Sends& messages);
  void SendToWorkers(protocol::LaneRef lane, const protocol::Send& send);

  // The next two functions are the work of the worker's network thread.
  void OnMessage(SimulatedWorker* worker, protocol::LaneRef lane, const protocol::Message& message);
  void OnDelivery(SimulatedWorker* worker, const protocol::Exchange::Delivery& delivery);
  // Call these for every push and every answer. After the last answer of a round, CountAnswer adds
  // the duration of the exchange, from the first push to this answer, to the worker's totals.
  void CountPush(SimulatedWorker* worker, uint64_t round);
  void CountAnswer(SimulatedWorker* worker, uint64_t round);
  size_t CountChunksOf(uint64_t round) const;

  Cluster& cluster_;
  const StepCosts& costs_;
  const Profile& profile_;
  const std::function<void(SimulatedWorker*)> on_answer_;
  const Bytes zeros_;
  SimulatedLanes lanes_;
  std::deque<WorkerClient> clients_;  // By rank.
};

}  // namespace tern::tools
