#include "tests/sim/world.h"

#include <algorithm>
#include <iterator>
#include <ostream>

#include "tests/sim/broken.h"
#include "tests/sim/lane_job.h"

namespace tern::sim {

using protocol::LaneRef;
using protocol::Message;
using protocol::Peer;
using std::chrono::milliseconds;

namespace {

// Every job ends before this time or runs into one of its own timeouts, so a longer run is stuck.
constexpr Time kDeadline = milliseconds(50'000);
// The same for jobs whose processes may all be killed and started again, up to twice.
constexpr Time kDeadlineOfDisasters = milliseconds(90'000);
constexpr Time kStrangerInterval = milliseconds(5);

std::string NameOfClient(const Connection& connection, const ToyWorker* worker) {
  if (connection.is_of_stranger()) return "stranger";
  return worker == nullptr ? "follower" : "worker " + std::to_string(worker->rank());
}

}  // namespace

World::World(const Schedule& schedule, const protocol::Safeguards& safeguards, std::ostream* trace)
    : schedule_(schedule),
      safeguards_(safeguards),
      trace_stream_(trace),
      rng_(schedule.seed ^ 0x5eed),
      network_(schedule, &rng_, &queue_, this),
      layout_(schedule),
      fault_free_states_(FaultFreeStates(schedule)),
      first_states_(schedule.rounds + 1),
      ledger_(schedule.workers),
      clock_ledger_(schedule.workers),
      disk_rng_(schedule.seed ^ 0xd15ced),
      disks_(schedule.shards()),
      write_faults_(schedule.shards()),
      max_lost_checkpoints_(schedule.shards()),
      job_(schedule.servers_hold_state() || schedule.checkpoint_every != 0
               ? MakeLaneJob(schedule, layout_, ExpectedHello())
               : nullptr),
      worker_disks_(schedule.workers),
      report_([this](const std::string& what) { ReportViolation(what); }),
      stranger_(this, schedule.seed ^ 0x57a46e),
      num_processes_(schedule.workers),
      current_server_(schedule.shards(), kNobody),
      is_posted_(schedule.faults.size()) {
  const Schedule::FullDisk& full_disk = schedule.full_disk;
  if (schedule.checkpoint_every != 0)
    checkpoint_owner_ = setup::CheckpointOwner(*job_, "disk", "worker");
  if (full_disk.changes != 0)
    disks_[full_disk.shard].RefuseAfter(full_disk.from, full_disk.changes);
}

pb::Hello World::ExpectedHello() const {
  pb::Hello hello;
  hello.set_job("toy");
  hello.set_job_digest(1);
  hello.set_model_digest(2);
  hello.set_plan_digest(3);
  hello.set_steps(schedule_.rounds);
  return hello;
}

void World::OnBeginning(uint64_t beginning, uint64_t begin) {
  if (chunk_histories_.contains(beginning)) return;
  ChunkHistories& histories = chunk_histories_[beginning] = chunk_histories_[beginning_];
  for (auto& history : histories) history.erase(history.upper_bound(begin), history.end());
  beginning_ = beginning;
}

void World::OnCellClosed(uint64_t beginning, const protocol::Cell& cell, uint64_t round,
                         uint64_t word) {
  auto& history = chunk_histories_[beginning][cell.bucket * kNumChunks + cell.chunk];
  if (schedule_.sends_changes) {
    const auto next_entry = history.lower_bound(round);
    word = AddFloats(next_entry == history.begin() ? 0 : std::prev(next_entry)->second, word);
  }
  if (history.try_emplace(round, word).first->second != word)
    ReportViolation(ToString(cell, round) + " has two answers");
}

bool World::IsRightState(uint64_t round, const State& state) {
  if (round > schedule_.rounds) return false;
  if (spoiled_after_.has_value() && round >= *spoiled_after_) return true;
  // In a job with Schedule::exchanges_parts, an additional last round exchanges all buckets. A stop
  // moves this round to an earlier step, and then the states differ from those of the run without
  // faults.
  const bool follows_plan =
      !schedule_.exchanges_parts || std::none_of(schedule_.faults.begin(), schedule_.faults.end(),
                                                 [](const Fault& fault) { return fault.IsStop(); });
  if (schedule_.is_deterministic() && follows_plan) return state == fault_free_states_[round];
  if (schedule_.is_central) return IsStateOfLanes(round, state);
  std::optional<State>& known_state = first_states_[round];
  if (!known_state.has_value()) known_state = state;
  return state == *known_state;
}

bool World::IsStateOfLanes(uint64_t round, const State& state) const {
  const auto is_state_of = [&](const auto& histories) {
    for (size_t i = 0; i < state.size(); ++i) {
      // A round to which no worker contributed does not change the word.
      auto next_entry = histories.second[i].upper_bound(round);
      const uint64_t word =
          next_entry == histories.second[i].begin() ? 0 : std::prev(next_entry)->second;
      if (word != state[i]) return false;
    }
    return true;
  };
  return std::any_of(chunk_histories_.begin(), chunk_histories_.end(), is_state_of);
}

void World::OnResumed(uint64_t round) {
  if (!spoiled_after_.has_value()) return;
  if (round > *spoiled_after_)
    return ReportViolation("all go on from a checkpoint with a flipped bit");
  spoiled_after_.reset();
  // Where rounds may close without some workers, the repeated rounds may have other contributors.
  for (uint64_t later = round + 1; later <= schedule_.rounds; ++later) first_states_[later].reset();
}

std::string World::Run() {
  for (uint32_t s = 0; s < schedule_.shards(); ++s) {
    ++num_starting_;
    queue_.Post(rng_.Ms(0, 30), Event::Type::kStartServer, s);
  }
  for (uint32_t r = 0; r < schedule_.workers; ++r) {
    ++num_starting_;
    queue_.Post(rng_.Ms(0, 30), Event::Type::kStartWorker, r);
  }
  if (schedule_.has_stranger) queue_.Post(kStrangerInterval, Event::Type::kStrangerTick, 0);
  while (!queue_.empty() && violation_.empty()) {
    const Event event = queue_.Pop();
    if (event.time > (schedule_.checkpoint_every != 0 ? kDeadlineOfDisasters : kDeadline)) {
      // A process that could not hear of the end of shard 0 waits for its own timeouts. That does
      // not count as stuck.
      const bool could_not_hear_end = all_state_lost_ && !Server(0)->alive();
      if (!StoppedEarly() && !could_not_hear_end)
        ReportViolation("stuck: " + DescribeRunningProcesses());
      break;
    }
    now_ = event.time;
    ++num_events_handled_;
    HandleEvent(event);
    CheckInvariants();
    if (IsOver()) break;
  }
  if (violation_.empty()) JudgeJobEnd();
  return violation_;
}

// Broken invariants count only if no safeguard of the protocol is switched off. A test that
// switches a safeguard off wants the judge to find the effect.
void World::CheckInvariants() {
  const std::string broken_invariant = TakeBrokenInvariant();
  if (!broken_invariant.empty() && safeguards_ == protocol::Safeguards{})
    ReportViolation(broken_invariant);
}

void World::HandleEvent(const Event& event) {
  switch (event.type) {
    case Event::Type::kToServer:
    case Event::Type::kToClient:
    case Event::Type::kConnect:
    case Event::Type::kDisconnected:
      return network_.OnEvent(event, now_);
    case Event::Type::kWorkerTick:
      if (!workers_[event.who]->alive()) return;
      queue_.Post(now_ + milliseconds(50), event.type, event.who);
      return workers_[event.who]->OnTick();
    case Event::Type::kWorkerTask:
      return workers_[event.who]->OnTask(event.index);
    case Event::Type::kServerTick:
      if (!servers_[event.who]->alive()) return;
      queue_.Post(now_ + milliseconds(125), event.type, event.who);
      CheckMemoryBounds();
      return servers_[event.who]->OnTick();
    case Event::Type::kServerMembers:
      return servers_[event.who]->OnMembers(event.index);
    case Event::Type::kFault:
      return InjectFault(schedule_.faults[event.who]);
    case Event::Type::kThaw:
      return workers_[event.who]->Thaw();
    case Event::Type::kStartWorker:
      return StartWorker(event.who);
    case Event::Type::kStartServer:
      return StartServer(event.who);
    case Event::Type::kStrangerTick:
      queue_.Post(now_ + kStrangerInterval, event.type, event.who);
      return stranger_.OnTick();
  }
}

void World::StartWorker(uint32_t rank) {
  --num_starting_;
  if (IsEnding()) return;  // the job is done, so its workers are not restarted
  const auto process = static_cast<uint32_t>(workers_.size());
  Trace([&] { return "worker " + std::to_string(rank) + " starts"; });
  workers_.push_back(MakeWorker(this, process, rank, rng_.Next() | 1));
  workers_.back()->Start();
  queue_.Post(now_ + milliseconds(50), Event::Type::kWorkerTick, process);
  OnReached(rank, Fault::Point::kJoining, ++num_processes_[rank]);
}

void World::StartServer(uint32_t shard) {
  --num_starting_;
  const ToyServer* const shard0 = current_server_[0] == kNobody ? nullptr : Server(0);
  // A shard is not started again once shard 0 has ended the job.
  if (shard != 0 && shard0 != nullptr && !shard0->alive() && !shard0->killed()) return;
  const auto process = static_cast<uint32_t>(servers_.size());
  Trace([&] { return "shard " + std::to_string(shard) + " starts"; });
  servers_.push_back(std::make_unique<ToyServer>(this, process, shard, rng_.Next() | 1));
  current_server_[shard] = process;
  servers_.back()->Start();
  queue_.Post(now_ + milliseconds(125), Event::Type::kServerTick, process);
}

void World::OnReached(uint32_t rank, Fault::Point point, uint64_t round) {
  for (uint32_t i = 0; i < schedule_.faults.size(); ++i) {
    const Fault& fault = schedule_.faults[i];
    const bool is_reached =
        fault.point == point && (fault.round == round || point == Fault::Point::kLeaving);
    if (is_posted_[i] || fault.witness != rank || !is_reached) continue;
    is_posted_[i] = true;
    queue_.Post(now_ + fault.delay_after_point, Event::Type::kFault, i);
  }
}

bool World::IsEnding() const {
  const auto has_ended = [](const auto& process) {
    return process->status().ok() && !process->alive() && !process->killed();
  };
  if (std::any_of(workers_.begin(), workers_.end(), has_ended)) return true;
  if (current_server_[0] == kNobody) return false;
  const ToyServer& shard0 = *servers_[current_server_[0]];
  return !shard0.killed() && (!shard0.alive() || shard0.coordinator().ending());
}

ToyWorker* World::LiveWorker(uint32_t rank) const {
  for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker) {
    if ((*worker)->rank() == rank && (*worker)->alive()) return worker->get();
  }
  return nullptr;
}

bool World::HasDonorOtherThan(uint32_t rank) const {
  for (uint32_t other = 0; other < schedule_.workers; ++other) {
    const ToyWorker* worker = LiveWorker(other);
    if (other == rank || worker == nullptr || worker->frozen()) continue;
    // Of two processes of one rank, one will be refused. So a rank that has had several processes
    // counts only if its newest process is ready and the schedule replaces no worker.
    const bool is_only_process = num_processes_[other] == 1;
    if (is_only_process ||
        (worker->ready() && !schedule_.HasFaultOfKind(Fault::Kind::kReplaceWorker)))
      return true;
  }
  return false;
}

// Starts another process of the worker's rank if none is left though the job goes on. Of two
// processes with the same rank both may be refused, and a process that is asked to stop while shard
// 0 is down ends without telling shard 0. The real `tern run` would restart the worker then, too.
void World::OnWorkerEnded(const ToyWorker& worker) {
  const bool ended_without_telling = worker.status().code() == Code::kTerminated;
  const bool may_be_refused =
      !worker.status().ok() &&
      (ended_without_telling || schedule_.HasFaultOfKind(Fault::Kind::kReplaceWorker));
  if (schedule_.elasticity.on_loss != algorithm::OnLoss::kWait || !may_be_refused || IsEnding() ||
      LiveWorker(worker.rank()) != nullptr)
    return;
  if (num_processes_[worker.rank()] >= 5 || StoppedEarly()) return;
  ++num_starting_;
  queue_.Post(now_ + milliseconds(100), Event::Type::kStartWorker, worker.rank());
}

void World::InjectFault(const Fault& fault) {
  if (IsEnding()) return;
  switch (fault.kind) {
    case Fault::Kind::kKillServer:
    case Fault::Kind::kCutServer:
      return InjectServerFault(fault);
    case Fault::Kind::kStop:
    case Fault::Kind::kStopWorker:
    case Fault::Kind::kStopAll:
      return SendStopSignals(fault);
    case Fault::Kind::kKillAll:
    case Fault::Kind::kKillWorkers:
      return KillAll(fault);
    case Fault::Kind::kFlipBit:
      return FlipBit(fault);
    default:
      return InjectWorkerFault(fault);
  }
}

void World::InjectServerFault(const Fault& fault) {
  const uint32_t process = current_server_[fault.target];
  if (process == kNobody || !servers_[process]->alive()) return;
  const std::string name = "shard " + std::to_string(fault.target);
  if (fault.kind == Fault::Kind::kCutServer) {
    Trace([&] { return "FAULT: the link of " + name + " is down"; });
    return network_.CutServer(process, !fault.hold, now_ + fault.down_time);
  }
  if (fault.disk != Fault::Disk::kInWrite && fault.disk != Fault::Disk::kPowerInWrite)
    return KillServer(process, fault);
  Trace([&] { return "FAULT: " + name + " dies in a write"; });
  write_faults_[fault.target] = &fault;
  disks_[fault.target].StopAfter(fault.change, [this](uint64_t n) { return disk_rng_.Below(n); });
}

void World::KillServer(uint32_t process, const Fault& fault) {
  Trace([&] { return "FAULT: shard " + std::to_string(fault.target) + " is killed"; });
  servers_[process]->Kill();
  network_.BreakAllOfServer(process, now_);
  MemoryStorage& disk = disks_[fault.target];
  write_faults_[fault.target] = nullptr;
  if (fault.disk == Fault::Disk::kPower || fault.disk == Fault::Disk::kPowerInWrite) {
    disk.RestartMachine([this](uint64_t n) { return disk_rng_.Below(n); });
  } else {
    disk.RestartProcess();
  }
  if (fault.disk == Fault::Disk::kTorn) disk.TearRecentFile(disk_rng_.Below(2));
  max_lost_checkpoints_[fault.target] =
      fault.disk == Fault::Disk::kStays || fault.disk == Fault::Disk::kPower ? 0 : 1;
  ++num_starting_;
  queue_.Post(now_ + fault.down_time, Event::Type::kStartServer, fault.target);
}

void World::CheckCheckpointsOnDisk(protocol::LaneRef lane, const Checkpoints& found_checkpoints) {
  const Checkpoints& checkpoints_before = checkpoints_on_disk_[lane];
  const auto num_lost = std::count_if(
      checkpoints_before.begin(), checkpoints_before.end(),
      [&](const auto& checkpoint) { return !found_checkpoints.contains(checkpoint); });
  if (num_lost > max_lost_checkpoints_[lane.shard])
    ReportViolation(std::to_string(num_lost) + " checkpoints of shard " +
                    std::to_string(lane.shard) + " are lost, and its disk lost " +
                    std::to_string(max_lost_checkpoints_[lane.shard]));
  checkpoints_on_disk_[lane] = found_checkpoints;
}

bool World::KillIfDiskStopped(uint32_t process) {
  MemoryStorage& disk = disks_[servers_[process]->shard()];
  if (!disk.stopped()) return false;
  const Fault* const fault = write_faults_[servers_[process]->shard()];
  if (IsEnding()) {  // the job is ending, so nothing is killed: the disk only refuses the write
    disk.RestartProcess();
    return false;
  }
  KillServer(process, *fault);
  return true;
}

void World::SendStopSignals(const Fault& fault) {
  std::vector<uint32_t> targets;  // s: shard s; number of shards + r: the worker with rank r
  for (uint32_t i = 0; i < schedule_.shards() + schedule_.workers; ++i) targets.push_back(i);
  for (size_t i = targets.size(); i > 1; --i) std::swap(targets[i - 1], targets[rng_.Below(i)]);
  if (fault.kind == Fault::Kind::kStop) targets = {fault.target};
  if (fault.kind == Fault::Kind::kStopWorker) targets = {schedule_.shards() + fault.target};
  const auto is_training = [](const auto& target) { return target->alive() && target->ready(); };
  all_asked_to_stop_ |= fault.kind == Fault::Kind::kStopAll &&
                        workers_.size() == schedule_.workers &&
                        std::all_of(workers_.begin(), workers_.end(), is_training);
  for (const uint32_t target : targets) {
    Trace([&] { return "FAULT: " + std::to_string(target) + " is asked to stop"; });
    if (target >= schedule_.shards()) {
      ToyWorker* const worker = LiveWorker(target - schedule_.shards());
      if (worker == nullptr || worker->frozen()) continue;
      any_asked_to_stop_ = true;
      worker->OnStop();
    } else if (current_server_[target] != kNobody && Server(target)->alive()) {
      any_asked_to_stop_ = true;
      Server(target)->OnStop();
    }
  }
}

void World::KillAll(const Fault& fault) {
  Trace([&] { return "FAULT: everybody is killed"; });
  for (uint32_t process = 0; process < workers_.size(); ++process) {
    if (!workers_[process]->alive()) continue;
    const uint32_t rank = workers_[process]->rank();
    // Whether this is the newest process of its rank. Only that is started again.
    const bool is_newest = LiveWorker(rank) == workers_[process].get();
    workers_[process]->Kill(false);
    network_.CloseAllOf(true, process);
    if (!is_newest) continue;
    ++num_starting_;
    queue_.Post(now_ + fault.down_time + rng_.Ms(0, 50), Event::Type::kStartWorker, rank);
  }
  StrikeWorkerDisks(fault);
  if (fault.kind == Fault::Kind::kKillWorkers) return;
  for (uint32_t shard = 0; shard < schedule_.shards(); ++shard) {
    const uint32_t process = current_server_[shard];
    if (process == kNobody || !servers_[process]->alive()) continue;
    servers_[process]->Kill();
    network_.BreakAllOfServer(process, now_);
    ++num_starting_;
    queue_.Post(now_ + fault.down_time + rng_.Ms(0, 50), Event::Type::kStartServer, shard);
  }
}

void World::FlipBit(const Fault& fault) {
  ToyWorker* const worker = LiveWorker(fault.target);
  if (worker == nullptr || worker->frozen() || !worker->FlipBit()) return;
  Trace([&] { return "FAULT: a bit of worker " + std::to_string(fault.target) + " flips"; });
  round_of_flip_ = spoiled_after_ = worker->applied();
}

void World::StrikeWorkerDisks(const Fault& fault) {
  std::vector<const std::vector<pb::Checkpoint>*> offers;
  bool any_struck = false, any_saved = false, any_gap = false;
  for (uint32_t rank = 0; rank < schedule_.workers; ++rank) {
    WorkerDisk& disk = worker_disks_[rank];
    const std::string error = disk.Strike(fault, fault.target == rank, *job_, checkpoint_owner_,
                                          [this](uint64_t n) { return disk_rng_.Below(n); });
    if (!error.empty()) ReportViolation("worker " + std::to_string(rank) + ": " + error);
    offers.push_back(&disk.saved().checkpoints);
    any_struck |= disk.was_struck();
    any_saved |= !disk.saved().checkpoints.empty() || disk.saved().unfit.has_sentence();
    any_gap |= disk.gap != 0;
  }
  const bool is_state_lost = !protocol::NewestCommonCheckpoint(offers).has_value();
  all_state_lost_ |= is_state_lost && fault.kind == Fault::Kind::kKillWorkers;
  const bool lost_some = is_state_lost && any_struck && any_saved;
  may_refuse_start_ = lost_some || (is_state_lost && any_gap);
  must_refuse_start_ = lost_some && fault.kind == Fault::Kind::kKillAll;
}

void World::InjectWorkerFault(const Fault& fault) {
  ToyWorker* worker = LiveWorker(fault.target);
  if (worker == nullptr || worker->frozen()) return;
  uint32_t process = 0;
  while (workers_[process].get() != worker) ++process;
  if (fault.kind == Fault::Kind::kCutConnections) {
    Trace(
        [&] { return "FAULT: connections of worker " + std::to_string(fault.target) + " break"; });
    return network_.BreakAllOfWorker(process, now_);
  }
  const bool fails_at_loss = schedule_.elasticity.on_loss == algorithm::OnLoss::kFail;
  if (!fails_at_loss && !HasDonorOtherThan(fault.target)) return;
  bool stays_away = fails_at_loss;
  if (fault.kind == Fault::Kind::kKillWorker) {
    Trace([&] { return "FAULT: worker " + std::to_string(fault.target) + " is killed"; });
    worker->Kill(fault.hold);
    ForgetStatesOfAbsentWorkers();
    network_.CloseAllOf(true, process);
    // A job that has not begun waits for all workers, so then the killed worker must come back.
    stays_away |=
        fault.for_good && std::any_of(workers_.begin(), workers_.end(), [](const auto& any_worker) {
          return any_worker->ready() && !any_worker->killed();
        });
    if (stays_away) return;
  } else {
    Trace([&] { return "FAULT: worker " + std::to_string(fault.target) + " is stopped"; });
    worker->Freeze();
    ForgetStatesOfAbsentWorkers();
    queue_.Post(now_ + fault.down_time, Event::Type::kThaw, process);
    if (fault.kind == Fault::Kind::kFreezeWorker) return;
  }
  ++num_starting_;
  const Time down_time =
      fault.kind == Fault::Kind::kKillWorker ? fault.down_time : rng_.Ms(100, 3000);
  queue_.Post(now_ + down_time, Event::Type::kStartWorker, fault.target);
}

void World::ForgetStatesOfAbsentWorkers() {
  uint64_t newest_applied = 0;
  for (const auto& worker : workers_) {
    if (worker->alive() && !worker->frozen())
      newest_applied = std::max(newest_applied, worker->applied());
  }
  for (uint64_t round = newest_applied + 1; !schedule_.is_central && round <= schedule_.rounds;
       ++round)
    first_states_[round].reset();
}

bool World::HasFaultFor(uint32_t rank) const {
  return std::any_of(schedule_.faults.begin(), schedule_.faults.end(), [&](const Fault& fault) {
    const bool hits_server =
        fault.kind == Fault::Kind::kKillServer || fault.kind == Fault::Kind::kCutServer;
    return !hits_server && !fault.IsStop() && fault.target == rank;
  });
}

bool World::IsOver() const {
  const auto is_running = [](const auto& process) { return process->alive(); };
  if (num_starting_ != 0 || std::any_of(servers_.begin(), servers_.end(), is_running)) return false;
  for (const auto& worker : workers_) {
    if (!worker->alive() || worker->frozen()) continue;
    // A process that thaws after another process of its rank has finished may not know of that yet.
    const bool was_replaced = std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
      return other->rank() == worker->rank() && other->leaving() && !other->alive();
    });
    if (!was_replaced) return false;
  }
  return true;
}

void World::CheckMemoryBounds() {
  for (uint32_t process : current_server_) {
    if (process == kNobody || servers_[process]->killed()) continue;
    for (const protocol::RoundLane* lane : servers_[process]->round_lanes()) {
      if (lane->LargestNumSlots() > lane->MaxSlots())
        ReportViolation("a lane keeps more rounds than it may");
      if (lane->MaxSlots() >
          (schedule_.is_deterministic() ? 4 : 16) + 2 * (schedule_.lane_window() - 1) + 2)
        ReportViolation("a lane may keep too many rounds");
    }
  }
  for (const auto& worker : workers_) {
    if (!worker->alive()) continue;
    // A round has at most 7 outcomes: 2 scalers, 4 sums and one of figures. The job's last figures
    // are one more.
    const uint32_t window = schedule_.lane_window();
    const size_t max_rounds = schedule_.is_deterministic() ? window + 1 : 16 + 2 * window;
    if (worker->session().exchange().num_held() > 7 * max_rounds + 1)
      ReportViolation("a worker holds more than it may");
  }
}

const ToyWorker* World::WorkerOf(const Connection& connection) const {
  return connection.is_worker && !connection.is_of_stranger() ? workers_[connection.client].get()
                                                              : nullptr;
}

uint32_t World::ListeningProcess(LaneRef lane, uint32_t port) {
  const uint32_t process = current_server_[lane.shard];
  return process != kNobody && servers_[process]->ListensAt(lane, port) ? process : kNobody;
}

void World::DeliverToServer(const Connection& connection, Peer peer, const Message& message) {
  Trace([&] {
    return NameOfClient(connection, WorkerOf(connection)) + " -> shard " +
           std::to_string(connection.lane.shard) + "." + std::to_string(connection.lane.lane) +
           ": " + message.head.ShortDebugString();
  });
  servers_[connection.server]->OnMessage(connection.lane.lane, peer, message);
}

void World::DeliverToClient(const Connection& connection, const Message& message) {
  Trace([&] {
    return "shard " + std::to_string(connection.lane.shard) + "." +
           std::to_string(connection.lane.lane) + " -> " +
           NameOfClient(connection, WorkerOf(connection)) + ": " + message.head.ShortDebugString();
  });
  if (connection.is_of_stranger()) return;
  if (connection.is_worker) return workers_[connection.client]->OnMessage(connection.lane, message);
  servers_[connection.client]->OnMessageFromShard0(message);
}

void World::DeliverDamagedToServer(const Connection& connection, Peer peer) {
  if (!schedule_.ignores_damage) servers_[connection.server]->OnDamaged(connection.lane.lane, peer);
}

void World::DeliverDamagedToClient(const Connection& connection) {
  if (schedule_.ignores_damage || connection.is_of_stranger()) return;
  if (connection.is_worker) return workers_[connection.client]->OnDamaged(connection.lane);
  servers_[connection.client]->OnShard0Disconnected();
}

void World::OnDisconnected(const Connection& connection) {
  if (connection.is_of_stranger()) return;
  if (connection.is_worker) return workers_[connection.client]->OnDisconnected(connection.lane);
  servers_[connection.client]->OnShard0Disconnected();
}

bool World::MustDelayToServer(const Connection& connection) {
  const ToyWorker* const worker = WorkerOf(connection);
  if (worker == nullptr || !worker->messages_held()) return false;
  if (!servers_[connection.server]->alive()) return false;
  const ToyWorker* successor = LiveWorker(worker->rank());
  return successor == nullptr || !successor->admitted();
}

void World::ReportViolation(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void World::WriteTrace(const std::string& text) {
  *trace_stream_ << std::chrono::duration_cast<std::chrono::microseconds>(now_).count() / 1000.0
                 << " ms  " << text << "\n";
}

std::string Play(const Schedule& schedule, const protocol::Safeguards& safeguards,
                 std::ostream* trace) {
  if (trace != nullptr) *trace << ToString(schedule) << "\n";
  World world(schedule, safeguards, trace);
  std::string violation = world.Run();
  return violation.empty() ? violation : ToString(schedule) + "\n  " + violation;
}

}  // namespace tern::sim
