#include "tests/sim/toy_worker.h"

#include <algorithm>
#include <cstring>

#include "common/protocol/members/recovery.h"
#include "tests/sim/clock_worker.h"
#include "tests/sim/round_worker.h"
#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::LaneRef;
using protocol::Message;
using protocol::SessionAction;
using protocol::SessionActions;

namespace {

constexpr uint32_t kNumTaskTypes = 4;

// Checkpoints contain floats, so these functions copy the bits of the replica's words to and from
// floats.
std::vector<float> FloatsOfReplica(const Replica& replica) {
  std::vector<float> values(sizeof(Replica) / sizeof(float));
  std::memcpy(values.data(), &replica, sizeof(Replica));
  return values;
}
Bytes EncodeReplicaOfFloats(const std::vector<float>& values) {
  Replica replica{};
  if (values.size() == sizeof(Replica) / sizeof(float))
    std::memcpy(static_cast<void*>(&replica), values.data(), sizeof(Replica));
  return EncodeReplica(replica);
}

}  // namespace

std::unique_ptr<ToyWorker> MakeWorker(World* world, uint32_t process, uint32_t rank,
                                      uint64_t incarnation) {
  if (world->schedule().has_rounds())
    return std::make_unique<RoundWorker>(world, process, rank, incarnation);
  return std::make_unique<ClockWorker>(world, process, rank, incarnation);
}

ToyWorker::ToyWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation)
    : world_(world), process_number_(process), rank_(rank) {
  const Schedule& schedule = world->schedule();
  protocol::Session::Options options;
  options.rank = rank;
  options.incarnation = incarnation;
  options.data_lanes = schedule.data_lanes;
  options.servers.assign(schedule.shards(), "toy");
  options.hello = world->ExpectedHello();
  options.credit_bytes = 16;  // enough for two pushes in flight; further pushes must wait
  options.max_state_bytes = sizeof(Replica);
  options.piece_bytes = 40;
  options.timings = schedule.timings;
  if (schedule.checkpoint_every != 0) {
    checkpoints_.emplace(world->OpenCheckpoints(rank));
    options.saved_checkpoints = checkpoints_->FindSavedCheckpoints();
  }
  options.keeps_own = schedule.keeps_own_state;
  options.is_elastic = schedule.elasticity.has_unsolicited_outcomes();
  options.shrink = schedule.shrinks();
  options.in_plan = [world](const Cell& cell, LaneRef lane) {
    return world->layout().LaneOf(cell) == lane;
  };
  session_ = std::make_unique<protocol::Session>(std::move(options));
  if (schedule.workers_a_host != 0) host_.emplace(world, process, rank, session_.get());
  for (uint32_t num_lanes : schedule.data_lanes) connections_.emplace_back(num_lanes + 1, kNobody);
}

void ToyWorker::Start() {
  SessionActions actions;
  session_->Start(Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::OnMessage(LaneRef lane, const Message& message) {
  if (!is_alive_) return;
  if (is_frozen_) {
    inbox_.emplace_back(lane, message);
    return;
  }
  SessionActions actions;
  session_->OnMessage(lane, message, Now(), &actions);
  if (host_.has_value()) host_->OnServerMessage(message, Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::OnHostMessage(uint32_t from, const Message& message) {
  if (!is_alive_) return;
  if (is_frozen_) {
    host_inbox_.emplace_back(from, message);
    return;
  }
  SessionActions actions;
  host_->OnMessage(from, message, Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::OnDamaged(LaneRef lane) {
  if (!is_alive_) return;
  if (is_frozen_) {
    // When the process goes on, a lost connection has the same effect.
    lanes_broken_while_frozen_.push_back(lane);
    return;
  }
  SessionActions actions;
  session_->OnDamaged(lane, "damaged", Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::OnDisconnected(LaneRef lane) {
  if (!is_alive_) return;
  if (is_frozen_) {
    lanes_broken_while_frozen_.push_back(lane);
    return;
  }
  SessionActions actions;
  session_->OnDisconnected(lane, Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::OnTick() {
  if (!is_alive_ || is_frozen_) return;
  SessionActions actions;
  session_->OnTimer(Now(), &actions);
  if (host_.has_value() && is_ready_) host_->OnTick(Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::OnTask(uint32_t posted_task) {
  if (!is_alive_) return;
  if (is_frozen_) {
    tasks_due_while_frozen_.push_back(posted_task);
    return;
  }
  const auto task = static_cast<Task>(posted_task % kNumTaskTypes);
  const bool is_current = posted_task / kNumTaskTypes == generation_;
  SessionActions actions;
  switch (task) {
    case Task::kStep:
      if (is_current) MakeStep();
      return;
    case Task::kSnapshot:
      session_->OnSnapshot(SaveState(), applied_, &actions);
      break;
    case Task::kInstalled:
      if (is_current) session_->OnInstalled(applied_, Now(), &actions);
      break;
    case Task::kFinish:
      if (!is_current) return;
      world_->OnReached(rank_, Fault::Point::kLeaving, applied_);
      is_leaving_ = true;
      session_->Finish(Ok(), {}, {}, applied_, Now(), &actions);
      break;
  }
  PerformActions(std::move(actions));
}

void ToyWorker::OnStop() {
  SessionActions actions;
  session_->Stop(Status(Code::kTerminated, "stopped"), Now(), &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::Kill(bool holds_messages) {
  is_alive_ = false;
  was_killed_ = true;
  holds_messages_ = holds_messages;
  host_.reset();
  session_.reset();
}

void ToyWorker::Sleep() {
  Freeze();
  asleep_since_ = world_->now();
}

Time ToyWorker::Now() const { return world_->now() - slept_; }

void ToyWorker::Thaw() {
  if (!is_alive_ || !is_frozen_) return;
  is_frozen_ = false;
  if (asleep_since_.has_value()) slept_ += world_->now() - *asleep_since_;
  asleep_since_.reset();
  // A process that continues after a freeze sees its timers expire before it reads its messages.
  OnTick();
  for (LaneRef lane : std::exchange(lanes_broken_while_frozen_, {})) OnDisconnected(lane);
  for (auto& [lane, message] : std::exchange(inbox_, {})) OnMessage(lane, message);
  for (auto& [from, message] : std::exchange(host_inbox_, {})) OnHostMessage(from, message);
  for (uint32_t task : std::exchange(tasks_due_while_frozen_, {})) OnTask(task);
}

void ToyWorker::PerformActions(SessionActions actions) {
  for (SessionAction& action : actions) {
    if (!is_alive_) return;
    PerformAction(action);
  }
}

void ToyWorker::PerformAction(SessionAction& action) {
  switch (action.type) {
    case SessionAction::Type::kConnect: {
      is_admitted_ |= action.lane.lane != 0;  // data lanes connect only after shard 0's Welcome
      uint32_t& connection = connections_[action.lane.shard][action.lane.lane];
      if (connection != kNobody) world_->network().CloseConnection(connection);
      connection = world_->network().OpenConnection(true, process_number_, action.lane, action.port,
                                                    world_->now());
      if (!host_.has_value()) return;
      SessionActions actions;
      host_->OnLaneLost(action.lane, Now(), &actions);
      return PerformActions(std::move(actions));
    }
    case SessionAction::Type::kTellLeader: {
      SessionActions actions;
      host_->TellLeader(std::move(action.message), Now(), &actions);
      return PerformActions(std::move(actions));
    }
    case SessionAction::Type::kSend:
      return world_->network().SendToServer(connections_[action.lane.shard][action.lane.lane],
                                            std::move(action.message), world_->now());
    case SessionAction::Type::kReady:
      if (action.applied != applied_) ReportViolation("was made ready at another round");
      if (is_ready_ && !world_->schedule().shrinks() && !world_->schedule().is_central &&
          world_->schedule().checkpoint_every == 0)
        ReportViolation("was made ready twice");
      is_ready_ = true;
      BeginRun(action.run);
      return OnReady(action.stop_after);
    case SessionAction::Type::kDeliver:
      return OnAnswer(action.delivery);
    case SessionAction::Type::kSnapshot:
      return PostTask(Task::kSnapshot, world_->rng().Ms(0, 10));
    case SessionAction::Type::kInstall:
      return InstallState(action);
    case SessionAction::Type::kResume:
      return ResumeFromCheckpoint(action);
    case SessionAction::Type::kGoBack:
      return GoBackToRound(action);
    case SessionAction::Type::kEnded:
      is_alive_ = false;
      status_ = action.status;
      world_->network().CloseAllOf(true, process_number_);
      world_->OnWorkerEnded(*this);
      world_->Trace([&] {
        return "worker " + std::to_string(rank_) + " ended: " + std::to_string(ExitCode(status_)) +
               " " + status_.message();
      });
      return;
    case SessionAction::Type::kLog:
      return world_->Trace([&] { return "worker " + std::to_string(rank_) + ": " + action.text; });
  }
}

void ToyWorker::InstallState(const SessionAction& action) {
  CancelTasks();
  world_->worker_disk(rank_).gap = 2;
  applied_ = action.applied;
  if (host_.has_value()) host_->Restart(applied_);
  OnInstall(action.state);
  PostTask(Task::kInstalled, world_->rng().Ms(0, 150));
}

void ToyWorker::GoBackToRound(const protocol::SessionAction& action) {
  if (!world_->schedule().is_central)
    return ReportViolation("was told to go back, where no server holds parameters");
  CancelTasks();
  is_leaving_ = false;
  applied_ = action.applied;
  OnGoBack();
}

void ToyWorker::ResumeFromCheckpoint(const protocol::SessionAction& action) {
  if (!checkpoints_.has_value())
    return ReportViolation("was told to go on from a checkpoint, in a job without checkpoints");
  const Result<tensors::TensorFile> file = checkpoints_->Read(action.checkpoint);
  if (!file.ok() || file->tensors.size() != 1)
    return ReportViolation("was told to go on from a checkpoint that it does not have");
  CancelTasks();
  world_->worker_disk(rank_).gap = 0;
  is_leaving_ = false;
  applied_ = action.applied;
  if (host_.has_value()) host_->Restart(applied_);
  world_->OnResumed(applied_);
  OnInstall(EncodeReplicaOfFloats(file->tensors[0].values));
  PostTask(Task::kInstalled, world_->rng().Ms(0, 150));
}

void ToyWorker::BeginRun(uint64_t run) {
  if (!checkpoints_.has_value()) return;
  const Status status = checkpoints_->Begin(run, applied_, /*has_past=*/true);
  if (!status.ok()) ReportViolation("cannot prepare its disk: " + status.message());
  run_ = run;
  world_->worker_disk(rank_).ResetStruck();
  OfferCheckpoints();
}

void ToyWorker::WriteCheckpoint(const Replica& replica) {
  const std::vector<float> values = FloatsOfReplica(replica);
  const Status status =
      checkpoints_->Write(applied_, applied_, {{"replica", {values.size()}, values}}, SavedState(),
                          DigestOfState(replica.newest));
  if (!status.ok()) ReportViolation("cannot write a checkpoint: " + status.message());
  WorkerDisk& disk = world_->worker_disk(rank_);
  disk.gap = std::max(0, disk.gap - 1);
  OfferCheckpoints();
}

void ToyWorker::OfferCheckpoints() {
  world_->worker_disk(rank_).SetSaved(run_, checkpoints_->Offers());
  session_->SetCheckpoints(checkpoints_->Offers());
}

void ToyWorker::Contribute(const Cell& cell, protocol::Contribution contribution) {
  SessionActions actions;
  session_->SetProgress(++progress_, false, {});
  session_->Contribute(cell, world_->layout().LaneOf(cell), std::move(contribution), Now(),
                       &actions);
  PerformActions(std::move(actions));
}

void ToyWorker::SetApplied(uint64_t applied) {
  applied_ = applied;
  session_->SetApplied(applied);
  if (host_.has_value()) host_->SetApplied(applied);
}

void ToyWorker::Finish() { PostTask(Task::kFinish, world_->rng().Ms(0, 20)); }

void ToyWorker::PostTask(Task task, Time after) {
  world_->Post(after, Event::Type::kWorkerTask, process_number_,
               generation_ * kNumTaskTypes + static_cast<uint32_t>(task));
}

void ToyWorker::ReportViolation(const std::string& what) {
  world_->ReportViolation("worker " + std::to_string(rank_) + " " + what);
}

}  // namespace tern::sim
