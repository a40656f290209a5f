// The net thread: owns the worker's sockets and its Session (the worker's place in the job), and
// implements Port for the training threads. It gets their commands through a channel, and sends
// events to them through another channel. Answers with scalers (codecs' scale factors) also go
// directly to the coder thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/exchange/exchange_counters.h"
#include "client/exchange/host_link.h"
#include "client/exchange/leave_request.h"
#include "client/exchange/port.h"
#include "client/exchange/progress.h"
#include "client/exchange/wire_trace.h"
#include "common/base/channel.h"
#include "common/base/clock.h"
#include "common/base/hang_watch.h"
#include "common/base/service_manager.h"
#include "common/base/signals.h"
#include "common/base/threads.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "common/protocol/members/session/session.h"
#include "setup/figure_log.h"
#include "setup/health.h"
#include "setup/none_reminder.h"
#include "setup/setup.h"

namespace tern::client {

class NetLoop : public client::Port {
 public:
  struct Options {
    uint32_t rank = 0;
    uint64_t steps = 0;                // the job's length in steps
    uint64_t max_state_bytes = 0;      // the largest training state that this worker accepts
    protocol::SavedCheckpoints saved;  // the checkpoints on this worker's disk
    bool keeps_own = false;  // whether this worker has private state that no other daemon has
    // Receives the answers with scalers (Coder::ReceiveScalers). Called on the net thread.
    std::function<void(client::Answer)> on_scaled;
    // Moves a sum to memory in which it can be decoded with less delay. Called on the net thread.
    // Null: sums stay where they arrive.
    std::function<Bytes(const Bytes& sum)> place_sum = nullptr;
    // Returns the stack of the coder thread, for the log. Called on the net thread.
    std::function<std::string()> coder_stack;
    // Whether the process is Tern's, which may then be ended and its threads' stacks be looked at,
    // and whose service manager hears how it is. In a foreign process, the net thread waits however
    // long training hangs.
    bool owns_process = true;
    // Receives the counters at every turn of the net thread, which calls it. Null: nobody wants
    // them.
    std::function<void(const pb::Counters&)> on_counters = nullptr;
    setup::Health* health = nullptr;  // hears of every turn of the net thread; null: nobody asks
    bool has_first_state = false;     // whether the others fetch their first state from this worker
    // What this worker has of the data (Hello.data_digest and data_text); 0: it reads no images.
    uint64_t data_digest = 0;
    std::string data_text = {};
  };
  // All references outlive the loop. The thread that calls this is the compute thread.
  NetLoop(const setup::Setup& setup, StopSignals& signals, Registry& registry,
          net::Traffic& traffic, client::Progress& progress, client::Events& events,
          Options options);
  // Joins the thread. REQUIRES that Finish was called, or that Start was not.
  ~NetLoop() override;

  void Start();
  // Waits until the session has ended, and returns the status with which it ended. If the session
  // ends while the training threads hang, so that nobody calls this, the net thread ends the
  // process with the exit code of that status.
  Status Join();
  pb::Counters Counters() const;

  void Contribute(protocol::Cell cell, protocol::Contribution contribution) override;
  void ReportApplied(uint64_t round) override;
  void SendSnapshot(Bytes state, uint64_t applied) override;
  void OfferCheckpoints(std::vector<pb::Checkpoint> checkpoints) override;
  void ReportInstalled(uint64_t applied) override;
  void Finish(Status status, pb::Figures figures, uint64_t steps) override;

 private:
  // Each command stands for a call of a function of Port. `applied`: the newest round that the
  // state includes.
  struct ContributeCommand {
    protocol::Cell cell;
    protocol::Contribution contribution;
  };
  struct AppliedCommand {
    uint64_t round;
  };
  struct SnapshotCommand {
    Bytes state;
    uint64_t applied;
  };
  struct OfferCommand {
    std::vector<pb::Checkpoint> checkpoints;
  };
  struct InstalledCommand {
    uint64_t applied;
  };
  struct FinishCommand {
    Status status;
    pb::Figures figures;
    uint64_t steps;
  };
  using Command = std::variant<ContributeCommand, AppliedCommand, SnapshotCommand, OfferCommand,
                               InstalledCommand, FinishCommand>;

  void Run();
  // Returns how long the training threads have hung; logs their stacks after `timeout`. Until then,
  // the service manager hears that this process is alive.
  Time WatchTraining(Time timeout);
  // Waits for a call of Join(), and for the coder thread. If the training threads hang, ends the
  // process.
  void AwaitJoin();
  void OnSignal(protocol::SessionActions* out);
  void OnCommand(Command command, protocol::SessionActions* out);
  void ReceiveMessages(protocol::SessionActions* out);
  void EndWith(Status status);
  void ExecuteActions(protocol::SessionActions actions);
  // Executes kSend. A message that cannot be sent now may be dropped: a timer repeats hellos and
  // heartbeats, and unanswered contributions are sent again when the lane (socket of the server) is
  // connected.
  void SendOnLane(const protocol::SessionAction& action);
  void ConnectLane(protocol::LaneRef lane, uint32_t port);
  void DeliverAnswer(client::Answer answer);

  const setup::Setup& setup_;
  StopSignals& signals_;
  net::Traffic& traffic_;
  client::Progress& progress_;
  client::Events& events_;
  ExchangeCounters exchange_counters_;
  WireTrace wire_trace_;
  const Options options_;
  LoopClock clock_;
  ServiceManager service_manager_;  // used on the net thread
  net::Context context_;
  protocol::Session session_;
  Channel<Command> commands_;
  net::Poller poller_;
  std::optional<HostLink> host_link_;  // with exchange.host_sum
  std::map<protocol::LaneRef, std::unique_ptr<net::DealerSocket>> sockets_;
  unsigned num_connects_ = 0;
  const pthread_t compute_thread_ = pthread_self();
  HangWatch training_watch_;
  LeaveRequest leave_request_{setup_.timings.dead_after};
  pb::Counters machine_figures_;  // only those of this worker's machine
  setup::FigureLog figure_log_;
  setup::NoneReminder none_reminder_;
  std::atomic<bool> join_called_{false};
  bool has_ended_ = false;
  Status end_status_;
  Thread thread_;  // The last member, because the thread uses all members above.
};

}  // namespace tern::client
