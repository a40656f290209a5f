// One data socket of a server shard and the thread that owns it: feeds the socket's messages to the
// Lane and carries out what it answers. The lane never sees the socket, the socket never sees a
// round.
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

// What the control thread tells a lane.
struct StopAfterThisRound {};
using LaneCommand = std::variant<pb::Members, StopAfterThisRound>;

class LaneLoop {
 public:
  // Binds the socket of lane `lane` (1..) of `shard` and starts the thread. `port` 0: any. `setup`,
  // `context` and `registry` outlive it. kAddress if the port cannot be had; kBadJob if the job
  // cannot hold its parameters so. `initial`: InitialWeights, where servers hold the parameters.
  static Result<std::unique_ptr<LaneLoop>> Start(const setup::Setup& setup, uint32_t shard,
                                                 uint32_t lane, uint64_t incarnation,
                                                 const std::string& host, uint16_t port,
                                                 net::Context& context, net::Traffic* traffic,
                                                 Registry* registry,
                                                 std::span<const float> initial = {});
  ~LaneLoop();  // stops and joins

  // What this lane has on its disk; nothing where it keeps nothing. From any thread.
  std::optional<protocol::Saved> Saved() const;
  // Why this lane cannot take part any more. From any thread.
  Status failure() const { return checkpoints_ == nullptr ? Ok() : checkpoints_->failure(); }
  uint16_t port() const { return socket_->port(); }
  void Tell(LaneCommand command) { commands_.Push(std::move(command)); }

 private:
  LaneLoop(const setup::Setup& setup, uint32_t shard, uint32_t lane,
           std::unique_ptr<net::RouterSocket> socket, Registry* registry);
  Status MakeLane(uint32_t lane, uint64_t incarnation, std::span<const float> initial);
  void Run();
  void OnCommand(const LaneCommand& command, protocol::Sends* out);
  void OnMembers(const pb::Members& members, protocol::Sends* out);
  // Another run, or another beginning of it. False: it cannot.
  bool Begin(const pb::Members& members);
  // Localized parameters: the cells, with what their codecs keep of their sums in the checkpoints.
  std::vector<protocol::CellSpec> LocalizedCells(uint32_t lane);
  Status GoBack(const std::optional<pb::Checkpoint>& to);
  void AfterMessages();
  protocol::Lane& lane() { return central_ != nullptr ? central_->lane() : *lane_; }
  void OnReceived(net::Received received, protocol::Sends* out);
  void Carry(protocol::Sends sends);

  const setup::Setup& setup_;
  const uint32_t shard_, lane_number_;
  std::unique_ptr<net::RouterSocket> socket_;
  std::optional<update::Schedule> schedule_;      // once the length of the job is known
  std::unique_ptr<LaneCheckpoints> checkpoints_;  // where the lane keeps something
  std::unique_ptr<protocol::RoundLane> lane_;     // localized parameters
  std::unique_ptr<CentralLane> central_;          // central ones
  uint64_t beginning_ = 0;                        // as the newest Members said
  uint64_t lost_clocks_told_ = 0;
  Channel<LaneCommand> commands_;
  TimeCounter& sum_time_;
  Counter& unsent_;
  LaneCounters counters_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace tern::server
