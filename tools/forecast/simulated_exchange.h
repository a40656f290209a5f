// The exchange in the simulation of a step: every worker's Exchange and the servers' lanes, which
// are the state machines of the protocol itself, and the time that their messages take. Internal to
// the simulation.
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
  // Calls `on_answer` whenever worker->answers has changed. The references outlive this.
  SimulatedExchange(Cluster& cluster, const StepCosts& costs, const Profile& profile,
                    std::function<void(SimulatedWorker*)> on_answer);

  // The buckets [first, second) that a round exchanges.
  std::pair<size_t, size_t> BucketsOf(uint64_t round) const;
  // Hands the gradient of a bucket, or of all buckets of the round, to the worker's coder.
  void PushBucket(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void PushRound(SimulatedWorker* worker, uint64_t round);
  // Whether all chunks of a bucket have their answers.
  bool HasAnswer(SimulatedWorker* worker, uint64_t round, size_t bucket) const;
  // The worker has applied all answers up to this round. It forgets them, and reports the round
  // with its next messages.
  void OnApplied(SimulatedWorker* worker, uint64_t round);

 private:
  // What a worker has of a round that it has not applied.
  struct OpenRound {
    struct Scalers {
      bool own = false;     // its scalers of the bucket are computed
      bool shared = false;  // the maximum over the workers has arrived
    };
    std::map<size_t, Scalers> scalers;  // by bucket
    size_t answered = 0;                // chunks that have their answers
  };
  struct Client {
    protocol::Exchange exchange;
    std::map<uint64_t, OpenRound> rounds;  // by round
  };

  protocol::Time Now() const;
  Client& ClientOf(const SimulatedWorker* worker) { return clients_[worker->rank]; }

  void OnPrepared(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void EncodeIfScaled(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void Encode(SimulatedWorker* worker, uint64_t round, size_t bucket);
  void PushChunk(SimulatedWorker* worker, uint64_t round, size_t bucket, size_t chunk);
  void Contribute(SimulatedWorker* worker, const protocol::Cell& cell, protocol::LaneRef lane,
                  uint64_t round, double bytes);
  void SendUp(SimulatedWorker* worker, const std::vector<protocol::Exchange::Outgoing>& messages);

  // On the thread of a lane.
  void OnContribution(SimulatedWorker* worker, protocol::LaneRef lane,
                      const protocol::Message& message);
  void Handle(SimulatedWorker* worker, protocol::LaneRef lane, const protocol::Message& message);
  void SendDown(protocol::LaneRef lane, const protocol::Sends& messages);
  void SendDown(protocol::LaneRef lane, const protocol::Send& one);

  // On the worker's net thread.
  void OnMessage(SimulatedWorker* worker, protocol::LaneRef lane, const protocol::Message& message);
  void OnDelivery(SimulatedWorker* worker, const protocol::Exchange::Delivery& delivery);
  // Measure the exchanges as client/exchange/exchange_counters.h does.
  void CountPush(SimulatedWorker* worker, uint64_t round);
  void CountAnswer(SimulatedWorker* worker, uint64_t round);
  size_t ChunksOf(uint64_t round) const;

  Cluster& cluster_;
  const StepCosts& costs_;
  const Profile& profile_;
  const std::function<void(SimulatedWorker*)> on_answer_;
  const Bytes zeros_;
  SimulatedLanes lanes_;
  std::deque<Client> clients_;  // by rank
};

}  // namespace tern::tools
