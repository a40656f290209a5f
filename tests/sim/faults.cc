// Injects the faults of a simulated schedule.
#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace tern::sim {

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
    case Fault::Kind::kKillAllButFollowers:
      return KillAll(fault);
    case Fault::Kind::kFlipBit:
      return FlipBit(fault);
    case Fault::Kind::kSleep:
      return PutToSleep(fault);
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
  // The shard must not go on with initial weights.
  may_refuse_start_ |= num_lost != 0 && found_checkpoints.empty();
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
  if (schedule_.checkpoint_every != 0) StrikeWorkerDisks(fault);
  if (fault.kind == Fault::Kind::kKillWorkers) return;
  const bool kills_followers = fault.kind == Fault::Kind::kKillAll;
  for (uint32_t shard = 0; shard < (kills_followers ? schedule_.shards() : 1); ++shard) {
    const uint32_t process = current_server_[shard];
    if (process == kNobody || !servers_[process]->alive()) continue;
    servers_[process]->Kill();
    network_.BreakAllOfServer(process, now_);
    ++num_starting_;
    queue_.Post(now_ + fault.down_time + rng_.Ms(0, 50), Event::Type::kStartServer, shard);
  }
}

void World::PutToSleep(const Fault& fault) {
  for (uint32_t host = 0; host < schedule_.shards() + schedule_.workers; ++host) {
    if ((host == fault.target) == fault.all_others) continue;
    Trace([&] { return "FAULT: host " + std::to_string(host) + " sleeps"; });
    const Time wake_time = now_ + fault.down_time + rng_.Ms(0, 300);
    if (host < schedule_.shards()) {
      const uint32_t process = current_server_[host];
      servers_[process]->Sleep();
      if (!fault.hold) network_.BreakAllOfServer(process, now_);
      queue_.Post(wake_time, Event::Type::kWake, process);
    } else {
      // No process of a rank has followed another, so workers_ has one for each.
      const auto worker = std::find_if(
          workers_.begin(), workers_.end(),
          [&](const auto& any_worker) { return any_worker->rank() == host - schedule_.shards(); });
      const auto process = static_cast<uint32_t>(worker - workers_.begin());
      (*worker)->Sleep();
      if (!fault.hold) network_.BreakAllOfWorker(process, now_);
      queue_.Post(wake_time, Event::Type::kThaw, process);
    }
  }
  ForgetStatesOfAbsentWorkers();
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
  // With `shrink`, the checkpoint of any worker is the state of the job.
  const bool is_state_lost =
      schedule_.shrinks()
          ? std::all_of(offers.begin(), offers.end(), [](const auto* own) { return own->empty(); })
          : !protocol::NewestCommonCheckpoint(offers).has_value();
  // The job begins anew, perhaps with other workers.
  if (schedule_.shrinks() && is_state_lost) {
    for (auto& state : first_states_) state.reset();
  }
  all_state_lost_ |= is_state_lost && fault.kind == Fault::Kind::kKillWorkers;
  const bool lost_some = is_state_lost && any_struck && any_saved;
  may_refuse_start_ = lost_some || (is_state_lost && any_gap);
  must_refuse_start_ = lost_some && fault.kind != Fault::Kind::kKillWorkers;
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

}  // namespace tern::sim
