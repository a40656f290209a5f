// One data socket of a server shard, with the thread that owns it. The loop passes the socket's
// messages to the protocol machine (protocol::Lane) and sends the machine's answers. The machine
// knows no socket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "common/base/channel.h"
#include "common/base/status.h"
#include "common/base/threads.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "common/protocol/rounds/lane.h"
#include "common/update/schedule.h"
#include "server/central_lane.h"
#include "server/lane_checkpoints.h"
#include "server/lane_counters.h"
#include "setup/setup.h"

namespace tern::server {

// Commands from the control thread.
struct StopAfterThisRound {};
using LaneCommand = std::variant<pb::Members, StopAfterThisRound>;

class LaneLoop {
 public:
  // Binds the socket of lane `lane` (from 1) of `shard` and starts the thread. `port` 0: the system
  // picks a port. References and pointers outlive the loop. kAddress if the port cannot be bound;
  // kBadJob if servers cannot hold the job's parameters. `initial`: the model's
  // initial weights, for central parameters; if empty, they are computed.
  static Result<std::unique_ptr<LaneLoop>> Start(const setup::Setup& setup, uint32_t shard,
                                                 uint32_t lane, uint64_t incarnation,
                                                 const std::string& host, uint16_t port,
                                                 net::Context& context, net::Traffic* traffic,
                                                 Registry* registry,
                                                 std::span<const float> initial = {});
  ~LaneLoop();  // stops and joins

  // The lane's checkpoints on disk; nullopt if the lane has no state to save. From any thread.
  std::optional<protocol::Saved> Saved() const;
  // The error because of which this lane must leave the job; Ok without one. From any thread.
  Status failure() const { return checkpoints_ == nullptr ? Ok() : checkpoints_->failure(); }
  uint16_t port() const { return socket_->port(); }
  // From the control thread.
  void Tell(LaneCommand command) { commands_.Push(std::move(command)); }

 private:
  LaneLoop(const setup::Setup& setup, uint32_t shard, uint32_t lane,
           std::unique_ptr<net::RouterSocket> socket, Registry* registry);
  Status MakeLane(uint32_t lane, uint64_t incarnation, std::span<const float> initial);
  void Run();
  void OnCommand(const LaneCommand& command, protocol::Sends* out);
  void OnMembers(const pb::Members& members, protocol::Sends* out);
  // Changes to the run, and the beginning of it (recovery.h), that `members` name. Returns false on
  // failure.
  bool Begin(const pb::Members& members);
  // For localized parameters: the lane's cells. If codecs keep something of their sums, it becomes
  // part of the checkpoints.
  std::vector<protocol::CellSpec> LocalizedCells(uint32_t lane);
  // Returns to that checkpoint, or to the initial state.
  Status GoBack(const std::optional<pb::Checkpoint>& to);
  void AfterMessages();
  protocol::Lane& lane() { return central_ != nullptr ? central_->lane() : *lane_; }
  void OnReceived(net::Received received, protocol::Sends* out);
  void SendAll(protocol::Sends sends);

  const setup::Setup& setup_;
  const uint32_t shard_, lane_number_;
  std::unique_ptr<net::RouterSocket> socket_;
  std::optional<update::Schedule> schedule_;      // set once the length of the job is known
  std::unique_ptr<LaneCheckpoints> checkpoints_;  // null if the lane has no state to save
  std::unique_ptr<protocol::RoundLane> lane_;     // for localized parameters; else null
  std::unique_ptr<CentralLane> central_;          // for central parameters; else null
  uint64_t beginning_ = 0;                        // of the newest Members
  uint64_t lost_clocks_told_ = 0;
  Channel<LaneCommand> commands_;
  TimeCounter& sum_time_;
  Counter& unsent_;
  LaneCounters counters_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace tern::server
