// A simulated server process: the control plane and the data lanes, which the server daemon runs on
// threads of their own.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/protocol/members/shard0/coordinator.h"
#include "tests/sim/network.h"
#include "tests/sim/played_lane.h"
#include "tests/sim/toy.h"

namespace tern::sim {

class World;

class ToyServer {
 public:
  ToyServer(World* world, uint32_t process, uint32_t shard, uint64_t incarnation);

  void Start();
  void OnMessage(uint32_t lane, protocol::Peer from, const protocol::Message& message);
  void OnMessageFromShard0(const protocol::Message& message);
  void OnShard0Disconnected();
  void OnTick();
  void OnMembers(uint32_t lane);  // the data lane gets the oldest Members on their way to it
  void OnStop();
  void Kill();

  bool alive() const { return alive_; }  // neither killed nor ended
  bool killed() const { return killed_; }
  uint32_t shard() const { return shard_; }
  bool Listens(protocol::LaneRef lane, uint32_t port) const;
  const Status& status() const { return status_; }
  // Shard 0 only. REQUIRES not killed.
  const protocol::Coordinator& coordinator() const { return *coordinator_; }
  // All RoundLanes of this process. REQUIRES not killed.
  std::vector<const protocol::RoundLane*> round_lanes() const;
  // The data lanes if servers hold the state; else empty.
  const std::vector<std::unique_ptr<PlayedLane>>& lanes() const { return lanes_; }

 private:
  void MakeLane(uint32_t lane, uint64_t incarnation);
  void OnLaneMessage(uint32_t index, protocol::Peer from, const protocol::Message& message,
                     protocol::Sends* out);
  void BeginLane(uint32_t index, const pb::Members& members);
  protocol::Saved Saved() const;  // as server::Server::Saved
  void Act(protocol::ControlActions actions);
  void Stop();
  void Send(protocol::Sends sends);

  World* world_;
  uint32_t process_;
  uint32_t shard_;
  std::vector<uint32_t> ports_;
  std::unique_ptr<protocol::Control> control_;
  protocol::Coordinator* coordinator_ = nullptr;
  // By data lane. Only one of the two has entries: lanes_ if servers hold the state, else
  // round_lanes_.
  std::vector<std::unique_ptr<protocol::RoundLane>> round_lanes_;
  std::vector<std::unique_ptr<PlayedLane>> lanes_;
  std::vector<std::deque<pb::Members>> members_;  // by data lane: on their way to it
  // By data lane: the newest beginning, for round_lanes_
  std::vector<uint64_t> beginnings_;
  uint32_t to_shard0_ = kNobody;
  bool alive_ = true, killed_ = false;
  Status status_;
};

}  // namespace tern::sim
