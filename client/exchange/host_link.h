// A worker's place among the workers of its host (exchange.host_sum). One of them is the leader
// (common/protocol/rounds/host_leader.h): whoever has the lock in the host's folder. It binds a
// Unix socket there, to which the others connect. The states:
//
//   kOff --Open--> kSeeking --got the lock, bound--> kLeader
//                   |    ^
//                   |    +--connection lost, or none in time--+
//                   +------- connected to the leader -----> kMember
//
// When the leader's process ends, however it ends, the system frees the lock, and another worker
// takes it. Meanwhile all push to the servers themselves. A worker does so, too, while the leader
// hangs: if a probe shows that pushes did not get to the servers, it leaves the leader for a while,
// which doubles each time. A worker that cannot use the folder logs why and stays kOff.
//
// Belongs to the net thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/folder_lock.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "common/protocol/members/session/session.h"
#include "common/protocol/rounds/host_leader.h"
#include "setup/setup.h"

namespace tern::client {

class HostLink {
 public:
  enum class State : uint8_t { kOff, kSeeking, kMember, kLeader };

  // All references outlive the link, which passes to the session what it learns.
  HostLink(const setup::Setup& setup, uint32_t rank, net::Context& context, net::Poller& poller,
           protocol::Session& session, Registry& registry);
  ~HostLink();

  // The worker takes part in this run of the job.
  void Open(uint64_t run);
  // Finds the leader, or becomes it; takes what came from the others. Call at every turn.
  void Turn(Time now, protocol::SessionActions* out);
  // Executes SessionAction::Type::kTellLeader.
  void TellLeader(const protocol::Message& push, Time now, protocol::SessionActions* out);
  // A server has sent this message, which may be an answer that others of the host wait for.
  void OnMessage(const protocol::Message& message, Time now, protocol::SessionActions* out);
  // The connection of the lane is replaced.
  void OnLaneLost(protocol::LaneRef lane, Time now, protocol::SessionActions* out);
  // This worker has applied this round.
  void SetApplied(uint64_t applied) { leader_.SetApplied(applied); }
  // This worker has installed the state after this round.
  void Restart(uint64_t applied) { leader_.Restart(applied); }
  // The job is done: removes the folder if this worker leads.
  void RemoveFolder();

 private:
  void Become(State next) { state_ = next; }
  bool has_leader() const { return state_ == State::kMember || state_ == State::kLeader; }
  void Seek(Time now);
  void Lead();
  net::SocketOptions LocalOptions() const;
  void LoseLeader(Time now, protocol::SessionActions* out);
  // Leaves the leader if it has not brought pushes of this worker to the servers.
  void LeaveLeaderThatHangs(Time now, protocol::SessionActions* out);
  void ReceiveAsMember(Time now, protocol::SessionActions* out);
  void ReceiveAsLeader(Time now, protocol::SessionActions* out);
  void Execute(protocol::HostLeader::Actions actions, Time now, protocol::SessionActions* out);
  protocol::LaneRef LaneOf(const pb::Contribution& push) const;
  void ExportCounters();

  const setup::Setup& setup_;
  const uint32_t rank_;
  net::Context& context_;
  net::Poller& poller_;
  protocol::Session& session_;
  State state_ = State::kOff;
  std::string folder_;
  std::optional<FolderLock> lock_;
  std::unique_ptr<net::RouterSocket> members_socket_;  // the leader's
  std::unique_ptr<net::DealerSocket> leader_socket_;   // another's
  protocol::HostLeader leader_;
  std::map<uint32_t, net::PeerId> peers_;  // the leader's: by rank
  Time connecting_since_{}, next_try_{};
  Time avoids_leader_until_{}, pause_;
  uint64_t num_lost_by_leader_ = 0;  // of the exchange, at the last look
  Counter &sums_, &summed_, &alone_, &released_, &left_host_;
};

}  // namespace tern::client
