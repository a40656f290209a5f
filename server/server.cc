#include "server/server.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/failpoint.h"
#include "common/base/logging.h"
#include "common/base/loop_watchdog.h"
#include "common/base/terminal_line.h"
#include "common/base/text.h"
#include "common/net/address.h"
#include "common/protocol/members/follower.h"
#include "common/protocol/rounds/cells.h"
#include "server/bind_address.h"
#include "server/control_options.h"
#include "server/status/status_routes.h"
#include "setup/command_line.h"
#include "setup/metrics_routes.h"
#include "setup/saved.h"
#include "setup/socket_limits.h"

namespace tern::server {

Result<std::unique_ptr<Server>> Server::Make(const setup::Setup& setup, StopSignals& signals,
                                             const Options& options) {
  std::unique_ptr<Server> server(new Server(setup, signals, options));
  TERN_RETURN_IF_ERROR(server->Open());
  return server;
}

Server::Server(const setup::Setup& setup, StopSignals& signals, const Options& options)
    : setup_(setup),
      signals_(signals),
      options_(options),
      incarnation_(setup::RandomIncarnation()),
      clock_(setup.timings.heartbeat),
      traffic_(registry_),
      answer_limit_(registry_, 0, [this](net::PeerId peer) { control_socket_->Disconnect(peer); }),
      control_counters_(registry_, 0),
      door_(registry_, 0),
      trace_(setup.plan.workers),
      none_reminder_(setup.job),
      job_position_(setup.plan.has_rounds),
      report_(setup, options.shard, options.progress_fd) {}

Status Server::Open() {
  const pb::Server& server_keys = setup_.job.servers(static_cast<int>(options_.shard));
  const Result<net::Address> address = AwaitBindAddress(setup_, options_.shard, signals_);
  if (!address.ok()) return address.status();
  auto zap_handler = net::ZapHandler::Start(
      context_, {.security = setup_.security.get(),
                 .max_connections_per_address = MaxConnectionsPerAddress(setup_.job),
                 .networks = AllowedNetworks(setup_.job),
                 .registry = &registry_,
                 .pacing = setup::ServerPacing(setup_, options_.shard)});
  if (!zap_handler.ok()) return zap_handler.status();
  zap_handler_ = std::move(*zap_handler);
  std::vector<float> initial;
  if (setup_.plan.is_central) initial = InitialWeights(setup_);
  for (uint32_t lane = 1; lane <= server_keys.data_sockets(); ++lane) {
    const uint32_t port =
        server_keys.data_ports_size() > 0 ? server_keys.data_ports(static_cast<int>(lane) - 1) : 0;
    auto lane_loop = LaneLoop::Start(setup_, options_.shard, lane, incarnation_, address->host,
                                     static_cast<uint16_t>(port), context_, SocketOptionsOf(lane),
                                     &registry_, initial);
    if (!lane_loop.ok()) return lane_loop.status();
    lane_loops_.push_back(std::move(*lane_loop));
  }
  net::SocketOptions options = SocketOptionsOf(0);
  options.max_payload_bytes = setup::MaxPayloadBytes(setup_, 0);
  options.max_waiting = 16;  // Strangers are heard here first, and members say little.
  auto socket = net::RouterSocket::Bind(context_, address->host, address->port, options);
  if (!socket.ok()) return socket.status().Within("control socket");
  control_socket_ = std::move(*socket);
  poller_.Add(control_socket_.get());
  poller_.AddFd(signals_.fd());

  MakeControl();
  return StartHttp();
}

Status Server::StartHttp() {
  const pb::Metrics& metrics = setup_.job.metrics();
  if (metrics.port() == 0) return Ok();
  net::HttpRoutes routes = setup::MetricsRoutes(setup_, options_.shard, registry_);
  if (options_.shard == 0) {
    status_board_.emplace(setup_);
    status_metrics_.emplace(registry_, setup_.plan.workers, setup_.job);
    AddStatusRoutes(setup_, *status_board_, &routes);
    LOG(INFO) << "this job can be watched at " << setup::PageUrl(setup_.job);
  } else {
    routes["/"] = setup::SignpostRoute(setup_.job, Cat("server shard ", options_.shard));
  }
  health_.AddRoutes(&routes);
  auto http_server = net::HttpServer::Start(
      metrics.host(), setup::ServerMetricsPort(metrics, options_.shard), std::move(routes));
  if (!http_server.ok()) return http_server.status();
  http_server_ = std::move(*http_server);
  return Ok();
}

net::SocketOptions Server::SocketOptionsOf(uint32_t lane) {
  return {.high_water_mark = setup::MaxQueuedMessages(setup_, options_.shard, lane),
          .traffic = &traffic_,
          .security = setup_.security.get(),
          .zap_handler = zap_handler_.get()};
}

void Server::MakeControl() {
  protocol::ControlOptions control_options = ControlOptionsOf(setup_, options_.shard, incarnation_);
  for (const auto& lane_loop : lane_loops_) control_options.data_ports.push_back(lane_loop->port());
  if (control_options.ShardKeepsState(options_.shard))
    control_options.find_saved_checkpoints = [this] { return Saved(); };
  if (options_.shard == 0 && !setup_.plan.has_rounds)
    control_options.find_last_step = [this] { return LastStep(); };
  std::vector<protocol::CellSpec> cells = protocol::MakeCellsOfLane(setup_.plan, options_.shard, 0);
  if (options_.shard == 0) {
    auto coordinator = std::make_unique<protocol::Coordinator>(control_options, std::move(cells));
    coordinator_ = coordinator.get();
    control_ = std::move(coordinator);
  } else {
    control_ = std::make_unique<protocol::Follower>(control_options, std::move(cells));
  }
}

protocol::SavedCheckpoints Server::Saved() const {
  std::vector<protocol::SavedCheckpoints> lanes_saved;
  for (const auto& lane_loop : lane_loops_) {
    if (auto saved = lane_loop->Saved(); saved.has_value())
      lanes_saved.push_back(std::move(*saved));
  }
  return protocol::CommonCheckpoints(lanes_saved);
}

uint64_t Server::LastStep() const {
  uint64_t last_step = 0;
  for (const auto& lane_loop : lane_loops_) last_step = std::max(last_step, lane_loop->last_step());
  return last_step;
}

void Server::CheckThreads(protocol::ControlActions* new_actions) {
  const Time now = clock_.Now();
  if (const Status failure = zap_handler_->failure(); !failure.ok())
    return control_->OnFailure(failure, now, new_actions);
  const Time timeout = protocol::ProgressTimeout(setup_.timings, pb::Counters());
  bool all_move = true;
  for (const auto& lane_loop : lane_loops_) {
    const Status failure =
        lane_loop->CheckThread(timeout, setup_.timings.server_return_timeout, now);
    if (!failure.ok()) return control_->OnFailure(failure, now, new_actions);
    all_move &= lane_loop->stands_still() <= service_manager_.watchdog_interval();
  }
  if (all_move) service_manager_.Alive(Now());
}

void Server::RereadAllowList(protocol::ControlActions* new_actions) {
  if (!options_.read_allow_list) {
    LOG(WARNING) << "SIGUSR2: this shard has no list of peers to read again";
    return;
  }
  Result<net::AllowList> allowed = options_.read_allow_list();
  if (!allowed.ok()) {
    LOG(ERROR) << "SIGUSR2: the list of peers stays as it was: " << allowed.status().message();
    return;
  }
  LogInfo(Cat("SIGUSR2: the list of peers was read again; it has ", allowed->size(), " keys"),
          Print::kYes);
  zap_handler_->SetAllowed(*std::move(allowed));
  for (const net::PeerId peer : control_socket_->RevokedPeers())
    control_->OnRevoked(peer, clock_.Now(), new_actions);
}

Status Server::ConnectShard0() {
  Result<net::Address> address = net::ParseAddress(setup_.job.servers(0).address());
  if (!address.ok()) return address.status();
  net::SocketOptions options = SocketOptionsOf(0);
  options.max_payload_bytes = setup::MaxPayloadBytes(setup_, 0);
  if (shard0_socket_ != nullptr) poller_.Remove(shard0_socket_.get());
  const std::unique_ptr<net::DealerSocket> old_socket = std::move(shard0_socket_);
  auto socket = net::DealerSocket::Connect(context_, address->host, address->port, options,
                                           num_shard0_attempts_++, old_socket.get());
  if (!socket.ok()) return socket.status().Within("server shard 0");
  shard0_socket_ = std::move(*socket);
  poller_.Add(shard0_socket_.get());
  return Ok();
}

Status Server::Run() {
  const TraceThread trace_thread("control");
  SetTracing(true);
  service_manager_.Ready();
  protocol::ControlActions actions;
  control_->Start(clock_.Now(), &actions);
  Execute(std::move(actions));
  const Time tick_interval = setup_.timings.hello_retry / 2;
  LoopWatchdog watchdog("control thread",
                        protocol::ProgressTimeout(setup_.timings, pb::Counters()));
  while (!has_ended_) {
    TERN_RETURN_IF_ERROR(poller_.Wait(tick_interval));
    watchdog.OnTurn();
    HitFailpoint(FailPlace::kThreadControl);
    protocol::ControlActions new_actions;
    if (signals_.TakeSignal() != 0)
      control_->OnStop(signals_.status().code(), clock_.Now(), &new_actions);
    if (signals_.TakeCheckpoint() && setup::CanCheckpointOnRequest(setup_))
      control_->OnCheckpointRequest(&new_actions);
    if (signals_.TakeReread()) RereadAllowList(&new_actions);
    Receive(&new_actions);
    ReportUnreachable();
    control_->OnTimer(clock_.Now(), &new_actions);
    CheckThreads(&new_actions);
    Execute(std::move(new_actions));
    control_counters_.Export(control_->lane());
    ReportProgress();
    StderrLine().Drain(Time(0));
    health_.OnTurn(Now(), WaitingFor());
    if (none_reminder_.IsDue(clock_.Now())) LOG(WARNING) << setup::kNoneWarning;
  }
  service_manager_.Stopping();
  watchdog.OnTurn();
  final_status_ = setup::FinalStatus(final_status_, FinishLanes());
  WriteSummary();
  control_socket_->CloseAfterFlush();
  EndProcessIfALaneHangs();
  return final_status_;
}

namespace {
bool AnyHangs(const std::vector<std::unique_ptr<LaneLoop>>& lane_loops) {
  return std::any_of(lane_loops.begin(), lane_loops.end(),
                     [](const auto& lane_loop) { return lane_loop->hangs(); });
}
}  // namespace

Status Server::FinishLanes() {
  Status first_error;
  if (AnyHangs(lane_loops_)) return first_error;
  for (const auto& lane_loop : lane_loops_) {
    const Status finish_status = lane_loop->Finish();
    if (first_error.ok()) first_error = finish_status;
  }
  return first_error;
}

// All peers have answered the end of the job, or had time to do so (ending.h).
void Server::EndProcessIfALaneHangs() const {
  if (!AnyHangs(lane_loops_)) return;
  LOG(ERROR) << "a thread of this server hangs, so the process ends without it";
  _exit(ExitCode(final_status_));
}

void Server::Receive(protocol::ControlActions* new_actions) {
  for (int num_messages = 0; num_messages < 1024; ++num_messages) {
    const Time receive_begin = TraceBegin();
    std::optional<net::ReceivedMessage> received = control_socket_->Receive();
    if (!received.has_value()) break;
    trace_.OnReceived(receive_begin, received->envelope);
    if (received->error.has_value()) {
      SendToPeer({received->peer, frame_refusals_.Answer(*received->error, clock_.Now())});
      continue;
    }
    protocol::ControlActions answers;
    if (!door_.LetsIn(*received)) {
      if (auto answer = door_.AnswerTo(*received)) SendToPeer({received->peer, *std::move(answer)});
      continue;
    }
    {
      const TraceSpan span("sum", trace_.args());
      control_->OnMessage(received->peer,
                          {std::move(received->envelope), std::move(received->payload)},
                          clock_.Now(), &answers);
    }
    if (answers.empty()) continue;
    const TraceSpan span("send", trace_.args());
    Execute(std::move(answers));
  }
  if (shard0_socket_ != nullptr) ReceiveFromShard0(new_actions);
}

void Server::ReceiveFromShard0(protocol::ControlActions* new_actions) {
  while (std::optional<net::ReceivedMessage> received = shard0_socket_->Receive()) {
    if (!received->error.has_value()) {
      control_->OnMessageFromShard0({std::move(received->envelope), std::move(received->payload)},
                                    clock_.Now(), new_actions);
    } else if (received->error->fault == net::Fault::kOtherVersion) {
      return EndWith(received->error->status.Within("server shard 0"));
    } else {
      LOG(WARNING) << "server shard 0: " << received->error->status.message();
      return control_->OnShard0Disconnected();
    }
  }
  if (shard0_socket_->link() == net::DealerSocket::Link::kLost) control_->OnShard0Disconnected();
  control_->SetObstacleToShard0(shard0_socket_->obstacle());
  if (const std::string path = shard0_socket_->TakePath(); !path.empty())
    LOG(INFO) << "the connection to server shard 0 is from " << path;
}

void Server::EndWith(Status status) {
  has_ended_ = true;
  final_status_ = std::move(status);
}

// If the peer is not connected, the message may be lost: after connecting again, the peer repeats
// the messages that have no answer.
void Server::SendToPeer(const protocol::Send& send) {
  if (!control_->IsPeerOfJob(send.to) && !answer_limit_.MayAnswer(send.to, Now())) return;
  const net::SendResult result =
      control_socket_->Send(send.to, send.message.head, send.message.payload);
  if (result.ok()) return;
  VLOG(1) << "a peer is gone";
  if (result.outcome == net::SendOutcome::kUnreachable) unreachable_peers_.push_back(send.to);
}

void Server::ReportUnreachable() {
  for (const net::PeerId peer : std::exchange(unreachable_peers_, {}))
    control_->OnUnreachable(peer, clock_.Now());
}

void Server::Execute(protocol::ControlActions actions) {
  using Type = protocol::ControlAction::Type;
  for (protocol::ControlAction& action : actions) {
    switch (action.type) {
      case Type::kSend:
        if (status_board_.has_value())
          status_board_->OnSent(action.send.message.head, action.send.message.payload);
        SendToPeer(action.send);
        break;
      case Type::kConnectShard0:
        if (Status connect_status = ConnectShard0(); !connect_status.ok()) {
          if (num_shard0_attempts_ == 1)
            EndWith(connect_status);  // After a later failure the server tries again.
          LOG(WARNING) << connect_status.message();
        }
        break;
      case Type::kSendShard0:
        if (shard0_socket_ != nullptr &&
            !shard0_socket_->Send(action.send.message.head, action.send.message.payload).ok()) {
          VLOG(1) << "shard 0 is not connected";
        }
        break;
      case Type::kMembers:
        for (auto& lane_loop : lane_loops_) lane_loop->SendCommand(action.members);
        break;
      case Type::kStop:
        for (auto& lane_loop : lane_loops_) lane_loop->SendCommand(StopAfterThisRound{});
        break;
      case Type::kCheckpoint:
        for (auto& lane_loop : lane_loops_) lane_loop->SendCommand(CheckpointSoon{});
        break;
      case Type::kEnded:
        for (auto& lane_loop : lane_loops_)
          lane_loop->SendCommand(LastCheckpoint{action.last_step});
        EndWith(action.status);
        break;
      case Type::kLog:
        if (action.is_normal) {
          LogInfo(action.text, Print::kYes);
        } else {
          LOG(WARNING) << action.text;
        }
        if (status_board_.has_value()) status_board_->AddEvent(action.text);
        break;
    }
  }
}

}  // namespace tern::server
