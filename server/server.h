// A server shard. It owns the sockets, the control plane (protocol::Control, which on shard 0
// decides who takes part in the job) and the data lanes. A data lane is one socket with a thread,
// which receives pushes for some chunks of the model. Run() serves the control socket on the
// calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/service_manager.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/net/http_server.h"
#include "common/net/socket.h"
#include "common/net/traffic.h"
#include "common/net/zap_handler.h"
#include "common/protocol/members/shard0/coordinator.h"
#include "server/answer_limit.h"
#include "server/door.h"
#include "server/frame_refusals.h"
#include "server/job_report.h"
#include "server/lane_counters.h"
#include "server/lane_loop.h"
#include "server/lane_trace.h"
#include "server/status/status_board.h"
#include "server/status/status_metrics.h"
#include "setup/health.h"
#include "setup/none_reminder.h"
#include "setup/report.h"
#include "setup/setup.h"

namespace tern::server {

class Server {
 public:
  struct Options {
    uint32_t shard = 0;
    // A file descriptor to which the shard writes its summary, and shard 0 also its progress, one
    // JSON object per line. -1: none, as a user has started the shard (server/job_report.h).
    int progress_fd = -1;
    // Reads the list of who may connect again. Set only if this shard has keys.
    std::function<Result<net::AllowList>()> read_allow_list;
  };
  // Binds all sockets and starts the lanes' threads. `setup` and `signals` must outlive the
  // server. kAddress if a port cannot be bound; kBadJob if servers cannot hold the job's
  // parameters.
  static Result<std::unique_ptr<Server>> Make(const setup::Setup& setup, StopSignals& signals,
                                              const Options& options);

  // Serves until the job ends, and returns the status with which it ended; kCannotWrite if that was
  // an orderly end, but this shard's last checkpoint or its summary, output_dir/server.SHARD.json,
  // could not be written.
  Status Run();

 private:
  Server(const setup::Setup& setup, StopSignals& signals, const Options& options);
  // Binds the sockets, and starts the lanes and the HTTP server.
  Status Open();
  Status StartHttp();
  net::SocketOptions SocketOptionsOf(uint32_t lane);
  void MakeControl();
  // The checkpoints that every lane with state has on disk, for this shard's hello message.
  protocol::SavedCheckpoints Saved() const;
  // The step that the lanes of this shard have reached (ControlOptions::find_last_step).
  uint64_t LastStep() const;
  // Tells the control plane of the first lane that has failed or whose thread hangs, if any, and if
  // the ZapHandler has failed; and the service manager that this shard is alive, if all lanes move.
  void CheckThreads(protocol::ControlActions* new_actions);
  // Ends the lanes' threads, unless one hangs. Returns why a lane's last checkpoint could not be
  // written: a longer job would resume from it.
  Status FinishLanes();
  void EndProcessIfALaneHangs() const;
  // Takes over the list of who may connect, read again after SIGUSR2, and tells the control plane
  // whose keys are gone.
  void RereadAllowList(protocol::ControlActions* new_actions);
  Status ConnectShard0();
  void Receive(protocol::ControlActions* new_actions);
  void ReceiveFromShard0(protocol::ControlActions* new_actions);
  void EndWith(Status status);
  void SendToPeer(const protocol::Send& send);
  // Tells the control plane which peers' connections are closed.
  void ReportUnreachable();
  // Executes the actions of the control plane, in order.
  void Execute(protocol::ControlActions actions);
  // How many checkpoints this shard could not write; on shard 0, all shards.
  uint64_t FailedShardCheckpoints() const;
  void ReportProgress();
  void WriteSummary();
  std::string WaitingFor() const;  // setup::Health::OnTurn
  std::vector<setup::WorkerStatus> WorkerStatuses() const;
  // Updates job_position_, and returns the status of each worker.
  std::vector<setup::WorkerStatus> UpdatePosition();

  const setup::Setup& setup_;
  StopSignals& signals_;
  const Options options_;
  const uint64_t incarnation_;
  LoopClock clock_;
  ServiceManager service_manager_ = ServiceManager::FromEnvironment();
  Registry registry_;
  net::Traffic traffic_;
  net::Context context_;
  std::unique_ptr<net::ZapHandler> zap_handler_;  // outlives the sockets
  std::vector<std::unique_ptr<LaneLoop>> lane_loops_;
  std::unique_ptr<net::RouterSocket> control_socket_;
  std::unique_ptr<net::DealerSocket> shard0_socket_;  // to shard 0; null on shard 0 itself
  unsigned num_shard0_attempts_ = 0;                  // how often this shard tried to connect to it
  AnswerLimit answer_limit_;
  FrameRefusals frame_refusals_;                // of control_socket_
  std::vector<net::PeerId> unreachable_peers_;  // peers to which a message could not be sent
  net::Poller poller_;
  std::unique_ptr<protocol::Control> control_;
  const protocol::Coordinator* coordinator_ = nullptr;  // points to control_ on shard 0; else null
  std::optional<StatusBoard> status_board_;             // on shard 0, with metrics.port
  std::optional<StatusMetrics> status_metrics_;         // the same
  setup::Health health_{"control thread"};
  std::unique_ptr<net::HttpServer> http_server_;
  LaneCounters control_counters_;  // of lane 0, the state machine behind the control socket
  Door door_;                      // of the control socket
  LaneTrace trace_;
  bool has_ended_ = false;
  Status final_status_;
  Time last_progress_at_{};
  setup::NoneReminder none_reminder_;
  setup::JobPosition job_position_;  // updated only on shard 0
  JobReport report_;
};

}  // namespace tern::server
