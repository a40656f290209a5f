// A server shard other than 0: takes membership and the end of the job from shard 0, and keeps its
// own lane of scalers.
//
//   kGreeting --Welcome--> kFollowing
//      ^                      |
//      +----------1-----------+
//
//   any --End, Abort, Refuse (leave), deadline--> kEnded
//
//   1         says hello again: on a new connection when shard 0 is silent or its connection is
//             lost; on the old one when a pulse shows another incarnation of shard 0, or members
//             that this shard has not heard of
//   deadline  silence of shard 0: of start_timeout before its first Welcome, of
//             server_return_timeout after it; or, once a stop was requested, of dead_after
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
  void OnShard0Disconnected() override { disconnected_ = true; }
  // Asks shard 0 to stop the job in order, in every pulse until the end. If shard 0 is not there,
  // this shard ends alone, and the others by their deadlines.
  void OnStop(Code code, Time now, ControlActions* out) override;
  void OnFailure(const Status& status, Time now, ControlActions* out) override;
  const RoundLane& lane() const override { return lane_; }
  // Holds after every event: a shard that follows has heard a Welcome, and it speaks to ranks of
  // the job alone.
  Status Check() const;

 private:
  friend class FollowerPeer;  // of the tests

  enum class State : uint8_t { kGreeting, kFollowing, kEnded };
  // The only way from state to state. REQUIRES an arrow above, or the same state.
  void Become(State next);
  bool ended() const { return state_ == State::kEnded; }
  bool following() const { return state_ == State::kFollowing; }
  void OnMembers(const pb::Members& members, ControlActions* out);
  void OnRefuse(const pb::Refuse& refuse, ControlActions* out);
  void OnHello(Peer from, const pb::Hello& hello, ControlActions* out);
  void OnHeartbeat(Peer from, const pb::Heartbeat& beat, ControlActions* out);
  void Connect(Time now, ControlActions* out);
  void Greet(Time now, ControlActions* out);
  void SendShard0(Message message, ControlActions* out);
  void End(Status status, ControlActions* out);
  void SendPulses(Time now, ControlActions* out);
  void StopAlone(ControlActions* out);
  void ToWorkers(const Message& message, ControlActions* out);

  ControlOptions options_;
  RoundLane lane_;
  pb::Members members_;
  std::map<uint32_t, Peer> peers_;  // by rank
  State state_ = State::kGreeting;
  bool disconnected_ = false;
  Code stop_code_ = Code::kOk;  // 130 or 143 once asked to stop
  Status failure_;              // why this shard cannot take part any more
  uint64_t shard0_incarnation_ = 0;
  uint64_t members_of_ = 0;  // shard 0's incarnation that sent them: two may use equal epochs
  Time heard_at_{}, hello_at_{}, connected_at_{}, pulse_at_{};
};

}  // namespace tern::protocol
