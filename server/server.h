// A server shard: owns its sockets, lanes and protocol machines, and runs the control plane on the
// calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/net/metrics_page.h"
#include "common/net/socket.h"
#include "common/net/traffic.h"
#include "common/protocol/members/shard0/coordinator.h"
#include "server/lane_counters.h"
#include "server/lane_loop.h"
#include "setup/report.h"
#include "setup/setup.h"

namespace tern::server {

class Server {
 public:
  struct Options {
    uint32_t shard = 0;
    // Shard 0 writes its progress and the summary there, one JSON object per line. -1: nowhere.
    int progress_fd = -1;
  };
  // Binds all sockets. `setup` and `signals` outlive the server.
  static Result<std::unique_ptr<Server>> Make(const setup::Setup& setup, StopSignals& signals,
                                              const Options& options);

  // Serves until the job ends, and returns the status with which it ended. Writes the summary to
  // output_dir/server.SHARD.json.
  Status Run();

 private:
  Server(const setup::Setup& setup, StopSignals& signals, const Options& options);
  Status Open();
  void MakeControl();
  // The checkpoints that all lanes with state to save have in common.
  protocol::Saved Saved() const;
  // Ends the job if a lane has failed.
  void CheckLanes(protocol::ControlActions* out);
  Status ConnectShard0();
  void Receive(protocol::ControlActions* out);
  void ReceiveFromShard0(protocol::ControlActions* out);
  void EndWith(Status status);
  // Does what the protocol machine has decided.
  void Execute(protocol::ControlActions actions);
  void ReportProgress();
  void WriteSummary();
  std::vector<setup::WorkerStatus> WorkerStatuses() const;
  // Updates position_, and returns the same.
  std::vector<setup::WorkerStatus> UpdatePosition();

  const setup::Setup& setup_;
  StopSignals& signals_;
  const Options options_;
  const uint64_t incarnation_;
  LoopClock clock_;
  Registry registry_;
  net::Traffic traffic_;
  net::Context context_;
  std::vector<std::unique_ptr<LaneLoop>> lanes_;
  std::unique_ptr<net::RouterSocket> socket_;  // control
  std::unique_ptr<net::DealerSocket> shard0_;  // to shard 0; null on shard 0 itself
  unsigned shard0_attempts_ = 0;
  net::Poller poller_;
  std::unique_ptr<protocol::Control> control_;
  const protocol::Coordinator* coordinator_ = nullptr;  // control_ on shard 0; else null
  std::unique_ptr<net::MetricsPage> page_;
  Gauge& present_;
  LaneCounters counters_;  // of the control lane
  bool ended_ = false;
  Status end_;
  Time progress_at_{};
  setup::JobPosition position_;  // only on shard 0
};

}  // namespace tern::server
