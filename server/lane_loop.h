// One data socket of a server shard and the thread that owns it: feeds the socket's messages to the
// DataLane and carries out what it answers. The lane never sees the socket, the socket never sees a
// round.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "common/base/channel.h"
#include "common/base/status.h"
#include "common/base/threads.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "common/protocol/rounds/lane.h"
#include "server/data_lane.h"
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

  // As DataLane's. From any thread.
  std::optional<protocol::Saved> Saved() const { return lane_->Saved(); }
  Status failure() const { return lane_->failure(); }
  uint16_t port() const { return socket_->port(); }
  void Tell(LaneCommand command) { commands_.Push(std::move(command)); }

 private:
  LaneLoop(uint32_t lane, std::unique_ptr<DataLane> data, std::unique_ptr<net::RouterSocket> socket,
           Registry* registry);
  void Run();
  void OnCommand(const LaneCommand& command, protocol::Sends* out);
  void AfterMessages();
  void OnReceived(net::Received received, protocol::Sends* out);
  void Carry(protocol::Sends sends);

  const uint32_t lane_number_;
  std::unique_ptr<net::RouterSocket> socket_;
  std::unique_ptr<DataLane> lane_;
  uint64_t lost_clocks_told_ = 0;
  Channel<LaneCommand> commands_;
  TimeCounter& sum_time_;
  Counter& unsent_;
  LaneCounters counters_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace tern::server
