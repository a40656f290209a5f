// A simulated process that does not belong to the job. It connects to all servers and sends
// messages in the names of workers and shards. It knows all that members know, also the random
// numbers that name their processes (incarnations), but has none of their connections. So whatever
// it sends must change nothing.
#pragma once

#include <cstdint>
#include <map>

#include "common/protocol/members/shard0/coordinator.h"
#include "common/protocol/rounds/cells.h"
#include "tests/sim/rng.h"

namespace tern::sim {

class World;

class Stranger {
 public:
  Stranger(World* world, uint64_t seed) : world_(*world), rng_(seed) {}

  // Sends a message. Call regularly.
  void OnTick();

 private:
  using Worker = protocol::Coordinator::Worker;

  // Asks for the rank of this worker, or for the place of a shard.
  void SayHello(pb::Hello::Role role, uint32_t rank);
  void SendPulse();  // as a shard that was asked to stop
  // These send a message in the name of the worker with this rank.
  void SendHeartbeat(uint32_t rank, const Worker& worker);
  void SendBye(uint32_t rank, const Worker& worker);
  void SendContribution(uint32_t rank, const Worker& worker);
  // Sends a message on the stranger's own connection to a lane.
  void Send(protocol::LaneRef lane, protocol::Message message);
  uint32_t AnyShard();

  World& world_;
  Rng rng_;
  std::map<protocol::LaneRef, uint32_t> connections_;
};

}  // namespace tern::sim
