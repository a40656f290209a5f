// The control plane of a server shard other than 0. Shard 0 tells this shard the members and the
// end of the job. The Follower runs this shard's own control lane: the state machine that reduces
// scalers (the codecs' scale factors) over the workers.
//
//   kGreeting --Welcome--> kFollowing
//      ^                      |
//      +---- hello again -----+
//
//   any --End, Abort, Refuse (leave), deadline--> kEnded
//
//   hello again  The shard says hello again. It opens a new connection for that when shard 0 is
//                silent or the connection to shard 0 is lost. It uses the old connection when a
//                pulse (heartbeat) of shard 0 shows a new incarnation (process) of shard 0, or an
//                epoch (number of the membership) that this shard does not know.
//   deadline     Shard 0 has been silent for too long: for start_timeout before its first message;
//                for server_return_timeout after that; for dead_after if this shard was asked to
//                stop or has failed. A shard that fails before that first message does not wait.
#pragma once

#include <cstdint>
#include <map>

#include "common/protocol/members/control.h"

namespace tern::protocol {

class Follower : public Control {
 public:
  explicit Follower(ControlOptions options, std::vector<CellSpec> cells);

  void Start(Time now, ControlActions* out) override;
  void OnMessage(Peer from, const Message& message, Time now, ControlActions* out) override;
  void OnMessageFromShard0(const Message& message, Time now, ControlActions* out) override;
  void OnTimer(Time now, ControlActions* out) override;
  void OnShard0Disconnected() override { is_disconnected_ = true; }
  void SetObstacleToShard0(Status obstacle) override { obstacle_ = std::move(obstacle); }
  // Asks shard 0, in every pulse until the end, to stop the job in order. If shard 0 is silent or
  // has not sent a Welcome yet, this shard ends at once; the other daemons then end when their
  // deadlines pass.
  void OnStop(Code code, Time now, ControlActions* out) override;
  void OnCheckpointRequest(ControlActions*) override { ++checkpoint_requests_; }
  // This shard cannot go on. Sends Abort to shard 0 with every pulse from now on.
  void OnFailure(const Status& status, Time now, ControlActions* out) override;
  bool IsPeerOfJob(Peer peer) const override;
  const RoundLane& lane() const override { return lane_; }
  std::string WaitingFor() const override;
  // Checks what holds after every event: a following shard has received a Welcome, and peers_ has
  // only ranks below `workers`.
  Status Check() const;

 private:
  friend class FollowerPeer;  // gives tests access to private members

  enum class State : uint8_t { kGreeting, kFollowing, kEnded };
  // Changes state_; no other function does. REQUIRES that the diagram has an arrow from the present
  // state to `next`, or that `next` is the present state.
  void Become(State next);
  bool ended() const { return state_ == State::kEnded; }
  bool following() const { return state_ == State::kFollowing; }
  void OnMembers(const pb::Members& members, ControlActions* out);
  void OnRefuse(const pb::Refuse& refuse, ControlActions* out);
  void OnHello(Peer from, const pb::Hello& hello, ControlActions* out);
  void OnHeartbeat(Peer from, const pb::Heartbeat& beat, ControlActions* out);
  void ConnectToShard0(Time now, ControlActions* out);
  // `is_run_under_way`: shard 0 has said so, by GoBack.
  void SendHello(bool is_run_under_way, Time now, ControlActions* out);
  // Confirms to shard 0 that this shard ends, as shard 0 asked, and ends. `last_step`: see
  // ControlAction::last_step.
  void End(Status status, uint64_t last_step, ControlActions* out);
  void SendPulses(Time now, ControlActions* out);
  void EndWithoutShard0(ControlActions* out);

  ControlOptions options_;
  RoundLane lane_;
  pb::Members members_;
  std::map<uint32_t, Peer> peers_;  // workers' connections, by rank
  State state_ = State::kGreeting;
  bool is_disconnected_ = false;
  Status obstacle_;  // why there is no connection to shard 0 (ObstacleError); Ok: nothing is known
  bool is_obstacle_logged_ = false;
  bool was_shard0_heard_ = false;     // whether any process of shard 0 has sent a message
  Code stop_code_ = Code::kOk;        // kInterrupted or kTerminated once asked to stop
  uint64_t checkpoint_requests_ = 0;  // Pulse.checkpoint_requests
  Status failure_;                    // why this shard cannot take part any more
  uint64_t shard0_incarnation_ = 0;
  // The incarnation of shard 0 that sent members_. Two incarnations of shard 0 may use equal
  // epochs.
  uint64_t members_sender_ = 0;
  // When shard 0 was last heard, and when this shard last sent a hello, connected and sent pulses.
  Time heard_at_{}, hello_at_{}, connected_at_{}, pulse_at_{};
  Time silence_logged_at_{};  // when shard 0's silence was last logged
};

}  // namespace tern::protocol
