// A simulated server process. It has the same protocol machines as the real server: one for control
// messages (lane 0) and one for each data socket (lanes 1 and up). The real server runs each on its
// own thread; here World calls them. A shard is a server; the control machine of shard 0 is the
// coordinator of the job.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
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
  void OnDamaged(uint32_t lane, protocol::Peer from);  // asks the sender for a new connection
  void OnMessageFromShard0(const protocol::Message& message);
  void OnShard0Disconnected();
  void OnTick();
  // Delivers to a data lane the oldest membership message (Members) that is on its way there.
  // `lane` counts data lanes from 0.
  void OnMembers(uint32_t lane);
  void OnStop();
  void Kill();
  // The process's host sleeps: until Wake(), the process does nothing, and its clock stands still.
  void Sleep();
  void Wake();

  bool alive() const { return is_alive_; }  // neither killed nor ended
  bool killed() const { return was_killed_; }
  uint32_t shard() const { return shard_; }
  // Whether shard 0 has told this shard who the members are, so that it has its place.
  bool has_place() const { return control_->lane().open(); }
  // The port of a lane, or 0 for the control lane.
  uint32_t PortOf(uint32_t lane) const { return lane == 0 ? 0 : ports_[lane - 1]; }
  bool ListensAt(protocol::LaneRef lane, uint32_t port) const;
  const Status& status() const { return status_; }
  // The step that shard 0 has named for the last checkpoint; 0: none, or this process is running.
  uint64_t last_step() const { return last_step_; }
  // REQUIRES that this is shard 0 and was not killed.
  const protocol::Coordinator& coordinator() const { return *coordinator_; }
  // All lanes of this process that run rounds, lane 0 first. REQUIRES that it was not killed.
  std::vector<const protocol::RoundLane*> round_lanes() const;
  // The data lanes, if servers hold the weights; else empty.
  const std::vector<std::unique_ptr<PlayedLane>>& lanes() const { return lanes_; }

 private:
  struct Arrived {  // a message that has come while the process slept
    uint32_t lane = 0;
    protocol::Peer from = 0;  // 0: shard 0
    protocol::Message message;
  };
  void MakeLane(uint32_t lane, uint64_t incarnation);
  protocol::Time Now() const;  // the time by this process's clock
  void OnLaneMessage(uint32_t index, protocol::Peer from, const protocol::Message& message,
                     protocol::Sends* out);
  // Tells a data lane to go back if `members` has a new run or beginning.
  void BeginLane(uint32_t index, const pb::Members& members);
  // The checkpoints that all data lanes of this process have on their disk.
  protocol::SavedCheckpoints CheckpointsOfAllLanes() const;
  // The step that the data lanes of this process have reached, rounded up.
  uint64_t LastStepOfLanes() const;
  void PerformActions(protocol::ControlActions actions);
  // Tells all data lanes that the job must stop.
  void StopLanes();
  void SendToClients(protocol::Sends sends);
  // Sends a message of the control lane. Remembers a peer whose connection is closed.
  void SendFromControl(protocol::Send send);

  World* world_;
  uint32_t process_number_;  // index among all server processes of the World
  uint32_t shard_;
  std::vector<uint32_t> ports_;
  std::unique_ptr<protocol::Control> control_;
  protocol::Coordinator* coordinator_ = nullptr;
  // The data lanes: in lanes_ if servers hold the weights, else in round_lanes_. The other vector
  // is empty.
  std::vector<std::unique_ptr<protocol::RoundLane>> round_lanes_;
  std::vector<std::unique_ptr<PlayedLane>> lanes_;
  std::vector<std::deque<pb::Members>> members_;  // for each data lane: messages on the way to it
  std::vector<pb::Members> known_members_;  // for each lane in round_lanes_: the newest it knows
  uint32_t shard0_connection_ = kNobody;    // the connection to shard 0
  std::vector<protocol::Peer> unreachable_peers_;  // OnTick() tells control_ of them
  bool is_alive_ = true, was_killed_ = false;
  std::optional<protocol::Time> asleep_since_;  // set while the process sleeps
  protocol::Time slept_{};                      // how long it has slept so far
  std::vector<Arrived> inbox_;
  bool lost_shard0_while_asleep_ = false;
  Status status_;
  uint64_t last_step_ = 0;
};

}  // namespace tern::sim
