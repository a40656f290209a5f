#include "client/exchange/net_loop.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "common/algorithm/elasticity.h"
#include "common/base/failpoint.h"
#include "common/base/logging.h"
#include "common/base/loop_watchdog.h"
#include "common/base/stack_trace.h"
#include "common/base/terminal_line.h"
#include "common/base/text.h"
#include "common/base/trace.h"
#include "common/config/job.h"
#include "common/net/address.h"
#include "common/protocol/rounds/cells.h"
#include "setup/machine.h"
#include "setup/saved.h"
#include "setup/socket_limits.h"

namespace tern::client {

namespace {

protocol::Session::Options SessionOptions(const setup::Setup& setup,
                                          const NetLoop::Options& options) {
  protocol::Session::Options session_options;
  session_options.rank = options.rank;
  session_options.incarnation = setup::RandomIncarnation();
  session_options.incarnation_secret = setup::RandomIncarnation();
  session_options.data_lanes = setup.plan.data_lanes;
  for (const pb::Server& server : setup.job.servers())
    session_options.servers.push_back(server.address());
  session_options.hello = setup.hello;
  session_options.hello.set_steps(options.steps);
  if (options.data_digest != 0) {
    session_options.hello.set_data_digest(options.data_digest);
    session_options.hello.set_data_text(options.data_text);
  }
  session_options.tensor_table = Bytes::Own(setup.tensor_table);
  session_options.credit_bytes = uint64_t{setup.job.exchange().credit_kib()} * 1024;
  session_options.max_state_bytes = options.max_state_bytes;
  session_options.saved_checkpoints = options.saved;
  session_options.keeps_own = options.keeps_own;
  session_options.has_first_state = options.has_first_state;
  session_options.timings = setup.timings;
  const algorithm::Elasticity elasticity = algorithm::Elasticity::FromJob(setup.job);
  session_options.is_elastic = elasticity.has_unsolicited_outcomes() && setup.plan.has_rounds;
  session_options.shrink = elasticity.shrinks_on_loss();
  session_options.in_plan = [&setup](const protocol::Cell& cell, protocol::LaneRef lane) {
    return protocol::IsCellOfLane(setup.plan, cell, lane);
  };
  return session_options;
}

}  // namespace

NetLoop::NetLoop(const setup::Setup& setup, StopSignals& signals, Registry& registry,
                 net::Traffic& traffic, client::Progress& progress, client::Events& events,
                 Options options)
    : setup_(setup),
      signals_(signals),
      traffic_(traffic),
      progress_(progress),
      events_(events),
      exchange_counters_(setup.plan, registry),
      options_(std::move(options)),
      clock_(setup.timings.heartbeat),
      service_manager_(options_.owns_process ? ServiceManager::FromEnvironment()
                                             : ServiceManager()),
      session_(SessionOptions(setup, options_)),
      figure_log_(setup.job),
      none_reminder_(setup.job) {
  if (setup.job.exchange().host_sum())
    host_link_.emplace(setup, options_.rank, context_, poller_, session_, registry);
  setup::SetMachineFigures(config::JobForRank(setup.job, options_.rank), &machine_figures_);
}

NetLoop::~NetLoop() { (void)Join(); }

void NetLoop::Start() {
  thread_ = Thread("net", [this] { Run(); });
}

Status NetLoop::Join() {
  join_called_ = true;
  thread_.Join();
  return end_status_;
}

void NetLoop::Contribute(protocol::Cell cell, protocol::Contribution contribution) {
  commands_.Push(ContributeCommand{cell, std::move(contribution)});
}
void NetLoop::ReportApplied(uint64_t round) { commands_.Push(AppliedCommand{round}); }
void NetLoop::SendSnapshot(Bytes state, uint64_t applied) {
  commands_.Push(SnapshotCommand{std::move(state), applied});
}
void NetLoop::OfferCheckpoints(std::vector<pb::Checkpoint> checkpoints) {
  commands_.Push(OfferCommand{std::move(checkpoints)});
}
void NetLoop::ReportInstalled(uint64_t applied) { commands_.Push(InstalledCommand{applied}); }
void NetLoop::Finish(Status status, pb::Figures figures, uint64_t steps) {
  commands_.Push(FinishCommand{std::move(status), std::move(figures), steps});
}

void NetLoop::Run() {
  const TraceThread trace_thread("net");
  poller_.AddFd(commands_.event_fd());
  poller_.AddFd(signals_.fd());
  protocol::SessionActions actions;
  session_.Start(clock_.Now(), &actions);
  ExecuteActions(std::move(actions));
  const Time poll_timeout = setup_.timings.hello_retry / 2;
  std::optional<LoopWatchdog> watchdog;
  if (options_.owns_process)
    watchdog.emplace("net thread", protocol::ProgressTimeout(setup_.timings, pb::Counters()));
  while (!has_ended_) {
    if (Status waited = poller_.Wait(poll_timeout); !waited.ok()) return EndWith(waited);
    if (watchdog.has_value()) watchdog->OnTurn();
    HitFailpoint(FailPlace::kThreadNet);
    protocol::SessionActions command_actions;
    if (signals_.TakeSignal() != 0) OnSignal(&command_actions);
    if (signals_.TakeCheckpoint() && setup::CanCheckpointOnRequest(setup_))
      session_.RequestCheckpoint();
    if (auto leave = leave_request_.TakeDue(clock_.Now())) events_.Push(std::move(*leave));
    if (signals_.TakeReread()) LOG(WARNING) << "SIGUSR2: a worker has no files to read again";
    while (auto command = commands_.TryPop()) OnCommand(std::move(*command), &command_actions);
    ExecuteActions(std::move(command_actions));
    protocol::SessionActions message_actions;
    ReceiveMessages(&message_actions);
    if (host_link_.has_value()) host_link_->Turn(clock_.Now(), &message_actions);
    exchange_counters_.OnRoundTrips(session_.round_trips());
    const pb::Counters counters = Counters();
    session_.SetProgress(progress_.NumAdvances(), progress_.WaitsForOthers(events_.size()),
                         counters);
    WatchTraining(protocol::ProgressTimeout(setup_.timings, counters));
    figure_log_.LogIfDue(counters, options_.steps, clock_.Now());
    service_manager_.ShowStatus(setup::StepText(counters.job_step(), options_.steps), Now());
    if (options_.on_counters) options_.on_counters(counters);
    if (options_.health != nullptr)
      options_.health->OnTurn(Now(), session_.WaitingFor(clock_.Now()));
    if (none_reminder_.IsDue(clock_.Now())) LOG(WARNING) << setup::kNoneWarning;
    StderrLine().Drain(Time(0));
    session_.OnTimer(clock_.Now(), &message_actions);
    ExecuteActions(std::move(message_actions));
  }
  watchdog.reset();
  if (host_link_.has_value() && end_status_.ok()) host_link_->RemoveFolder();
  for (auto& [lane, socket] : sockets_) socket->CloseAfterFlush();
  AwaitJoin();
  service_manager_.Stopping();
}

void NetLoop::AwaitJoin() {
  const Time timeout = protocol::ProgressTimeout(setup_.timings, Counters());
  while (!join_called_ || !progress_.CoderIsIdle()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (WatchTraining(timeout) <= timeout || !options_.owns_process) continue;
    LOG(ERROR) << "training does not end, so this process ends without it: "
               << end_status_.message();
    _exit(ExitCode(end_status_));
  }
}

// Shard 0 decides what follows, from the same figures in the heartbeats.
Time NetLoop::WatchTraining(Time timeout) {
  const Time now = clock_.Now();
  const bool is_waiting = progress_.WaitsForOthers(events_.size());
  const Time stands_still = training_watch_.Observe(progress_.NumAdvances(), is_waiting, now);
  if (stands_still <= timeout) service_manager_.Alive(Now());
  if (!training_watch_.MustLog(timeout, now)) return stands_still;
  if (!options_.owns_process) {
    LOG(ERROR) << "training has not moved for " << protocol::SecondsText(stands_still);
    return stands_still;
  }
  LOG(ERROR) << "training has not moved for " << protocol::SecondsText(stands_still)
             << ". The compute thread: " << StackOfThread(compute_thread_)
             << "\nThe coder thread: " << options_.coder_stack();
  return stands_still;
}

void NetLoop::OnSignal(protocol::SessionActions* out) {
  if (setup_.job.faults().worker_signal() == pb::Faults::leave) {
    leave_request_.Begin(signals_.status(), clock_.Now());
  } else {
    session_.Stop(signals_.status(), clock_.Now(), out);
  }
}

void NetLoop::OnCommand(Command command, protocol::SessionActions* out) {
  const Time now = clock_.Now();
  if (auto* contribute = std::get_if<ContributeCommand>(&command)) {
    const bool is_push = contribute->cell.kind == protocol::Kind::kPush &&
                         protocol::IsPush(contribute->contribution);
    if (is_push)
      exchange_counters_.OnPush(contribute->cell, protocol::ExchangeOf(contribute->contribution),
                                now);
    session_.Contribute(contribute->cell, protocol::LaneOf(setup_.plan, contribute->cell),
                        std::move(contribute->contribution), now, out);
  } else if (const auto* applied = std::get_if<AppliedCommand>(&command)) {
    session_.SetApplied(applied->round);
    if (host_link_.has_value()) host_link_->SetApplied(applied->round);
  } else if (const auto* snapshot = std::get_if<SnapshotCommand>(&command)) {
    session_.OnSnapshot(snapshot->state, snapshot->applied, out);
  } else if (auto* offer = std::get_if<OfferCommand>(&command)) {
    session_.SetCheckpoints(std::move(offer->checkpoints));
  } else if (const auto* installed = std::get_if<InstalledCommand>(&command)) {
    exchange_counters_.DropOpenExchanges();
    wire_trace_.DropUnanswered();
    session_.OnInstalled(installed->applied, now, out);
    if (host_link_.has_value()) host_link_->Restart(installed->applied);
  } else {
    const auto& finish = std::get<FinishCommand>(command);
    session_.Finish(finish.status, finish.figures, Counters(), finish.steps, now, out);
  }
}

void NetLoop::ReceiveMessages(protocol::SessionActions* out) {
  std::vector<protocol::LaneRef> lost_lanes;
  std::vector<std::pair<protocol::LaneRef, std::string>> damaged_lanes;
  for (auto& [lane, socket] : sockets_) {
    for (int num_received = 0; num_received < 256; ++num_received) {
      std::optional<net::ReceivedMessage> received = socket->Receive();
      if (!received.has_value()) break;
      if (received->error.has_value()) {
        if (received->error->fault == net::Fault::kOtherVersion)
          return EndWith(received->error->status.Within(Cat("server shard ", lane.shard)));
        damaged_lanes.emplace_back(lane, received->error->status.message());
        break;
      }
      const protocol::Message message{std::move(received->envelope), std::move(received->payload)};
      session_.OnMessage(lane, message, clock_.Now(), out);
      if (host_link_.has_value()) host_link_->OnMessage(message, clock_.Now(), out);
    }
    if (socket->link() == net::DealerSocket::Link::kLost) lost_lanes.push_back(lane);
    if (lane.lane != 0) continue;
    session_.SetObstacle(lane.shard, socket->obstacle());
    if (const std::string path = socket->TakePath(); !path.empty())
      LOG(INFO) << "the connection to server shard " << lane.shard << " is from " << path;
  }
  for (const protocol::LaneRef& lane : lost_lanes) session_.OnDisconnected(lane, clock_.Now(), out);
  for (const auto& [lane, why] : damaged_lanes) session_.OnDamaged(lane, why, clock_.Now(), out);
}

void NetLoop::EndWith(Status status) {
  has_ended_ = true;
  end_status_ = std::move(status);
  events_.Push(client::Ended{end_status_});
}

void NetLoop::ExecuteActions(protocol::SessionActions actions) {
  using Type = protocol::SessionAction::Type;
  protocol::SessionActions more_actions;
  for (protocol::SessionAction& action : actions) {
    switch (action.type) {
      case Type::kConnect:
        ConnectLane(action.lane, action.port);
        if (host_link_.has_value())
          host_link_->OnLaneLost(action.lane, clock_.Now(), &more_actions);
        break;
      case Type::kSend:
        SendOnLane(action);
        break;
      case Type::kTellLeader:
        wire_trace_.OnSend(action.message.head);
        host_link_->TellLeader(action.message, clock_.Now(), &more_actions);
        break;
      case Type::kReady:
        if (host_link_.has_value()) host_link_->Open(action.run);
        LogInfo(Cat("worker ", options_.rank, " takes part in the job ", setup_.job.name()),
                Print::kYes);
        service_manager_.Ready();
        events_.Push(client::ReadyToTrain{action.applied, action.stop_after,
                                          action.checkpoint_after, action.run});
        break;
      case Type::kDeliver:
        DeliverAnswer(std::move(action.delivery));
        break;
      case Type::kSnapshot:
        events_.Push(client::SnapshotWanted{});
        break;
      case Type::kInstall:
        events_.Push(client::StateArrived{std::move(action.state), action.applied,
                                          std::move(action.others_resume)});
        break;
      case Type::kResume:
        events_.Push(client::ResumeWanted{std::move(action.checkpoint)});
        break;
      case Type::kGoBack:
        events_.Push(client::WentBack{action.applied, std::move(action.others_resume)});
        break;
      case Type::kEnded:
        EndWith(action.status);
        break;
      case Type::kLog:
        if (action.is_normal) {
          LogInfo(action.text, Print::kYes);
        } else {
          LOG(WARNING) << action.text;
        }
        break;
    }
  }
  if (!more_actions.empty()) ExecuteActions(std::move(more_actions));
}

void NetLoop::SendOnLane(const protocol::SessionAction& action) {
  const auto socket = sockets_.find(action.lane);
  wire_trace_.OnSend(action.message.head);
  if (socket == sockets_.end() ||
      !socket->second->Send(action.message.head, action.message.payload).ok()) {
    VLOG(1) << "not connected to server shard " << action.lane.shard << ", lane "
            << action.lane.lane;
  }
}

void NetLoop::DeliverAnswer(client::Answer answer) {
  // The coder needs the scalers (scale factors) to encode; the compute thread needs them to decode.
  wire_trace_.OnAnswer(answer);
  if (answer.cell.kind == protocol::Kind::kScale) options_.on_scaled(answer);
  exchange_counters_.OnAnswer(answer, clock_.Now());
  if (answer.cell.kind == protocol::Kind::kPush && options_.place_sum)
    answer.payload = options_.place_sum(answer.payload);
  events_.Push(std::move(answer));
}

void NetLoop::ConnectLane(protocol::LaneRef lane, uint32_t port) {
  auto& slot = sockets_[lane];
  if (slot != nullptr) poller_.Remove(slot.get());
  const std::unique_ptr<net::DealerSocket> old_socket = std::move(slot);
  const Result<net::Address> address =
      net::ParseAddress(setup_.job.servers(static_cast<int>(lane.shard)).address());
  net::SocketOptions options;
  options.max_payload_bytes = setup::MaxPayloadBytes(setup_, lane.lane);
  options.high_water_mark = 100000;  // never reached: credit_bytes limits what is sent
  options.traffic = &traffic_;
  options.security = setup_.security.get();
  options.shard = lane.shard;
  options.pacing = setup::WorkerPacing(setup_);
  auto socket = address.ok() ? net::DealerSocket::Connect(
                                   context_, address->host,
                                   static_cast<uint16_t>(port != 0 ? port : address->port), options,
                                   num_connects_++, old_socket.get())
                             : Result<std::unique_ptr<net::DealerSocket>>(address.status());
  if (!socket.ok()) {
    sockets_.erase(lane);
    return EndWith(socket.status().Within(Cat("server shard ", lane.shard)));
  }
  slot = std::move(*socket);
  poller_.Add(slot.get());
}

pb::Counters NetLoop::Counters() const {
  pb::Counters counters = machine_figures_;
  std::map<std::string, pb::Traffic> traffic_by_type;
  for (const net::Traffic::TypeTraffic& row : traffic_.Snapshot()) {
    pb::Traffic& traffic = traffic_by_type[row.type];
    traffic.set_type(row.type);
    if (row.direction == net::Direction::kIn) {
      traffic.set_messages_in(row.num_messages);
      traffic.set_bytes_in(row.bytes);
    } else {
      traffic.set_messages_out(row.num_messages);
      traffic.set_bytes_out(row.bytes);
    }
  }
  for (auto& [type, row] : traffic_by_type) *counters.add_traffic() = row;
  counters.set_rounds(progress_.rounds.value());
  counters.set_samples(progress_.samples.value());
  counters.set_compute_s(Seconds(progress_.compute_time.value()));
  counters.set_encode_s(Seconds(progress_.encode_time.value()));
  counters.set_decode_s(Seconds(progress_.decode_time.value()));
  counters.set_wait_s(Seconds(progress_.wait_time.value()));
  counters.set_train_s(Seconds(progress_.train_time.value()));
  counters.set_data_s(Seconds(progress_.data_time.value()));
  counters.set_checkpoint_s(Seconds(progress_.checkpoint_time.value()));
  if (const Time since = progress_.planning_since; since != Time::zero())
    counters.set_planning_s(Seconds(Now() - since));
  counters.set_evaluated(progress_.num_evaluated);
  counters.set_to_evaluate(progress_.num_to_evaluate);
  counters.set_loss(progress_.loss.value());
  counters.set_refusals(traffic_.NumRefusedMessages());
  counters.set_steps(progress_.steps.value());
  counters.set_clamped(progress_.num_clamped.value());
  counters.set_job_step(progress_.job_step);
  counters.set_from_step(progress_.from_step);
  counters.set_failed_checkpoints(progress_.checkpoint_failures.value());
  counters.set_checkpoint_step(progress_.checkpoint_step);
  if (const Time at = progress_.checkpoint_at; at != Time::zero())
    counters.set_checkpoint_age_s(Seconds(Now() - at));
  counters.set_late(session_.exchange().counts().late_rounds);
  exchange_counters_.AddTo(&counters);
  return counters;
}

}  // namespace tern::client
