// Decides at the end of a simulated schedule whether every process ended as it must. In these
// comments, "under shrink" and "under fail" name the value of the job's setting on_loss: when a
// worker is lost, the job removes the worker (shrink), waits for its return (wait) or fails (fail).
// A shard is a server; shard 0 leads the job.
#include <algorithm>

#include "tests/sim/world.h"

namespace tern::sim {

namespace {

std::string DescribeExit(const Status& status) {
  return std::to_string(ExitCode(status)) + " (" + status.message() + ")";
}

// Whether the worker was asked to stop while shard 0 was down, and so ended without telling shard
// 0.
bool StoppedWithoutShard0(const ToyWorker& worker) {
  return worker.status().message() == "stopped by a signal while server shard 0 was not there";
}

bool StartsWith(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

}  // namespace

std::string World::DescribeRunningProcesses() const {
  std::string text;
  for (uint32_t s = 0; s < schedule_.shards(); ++s) {
    if (current_server_[s] != kNobody && Server(s)->alive())
      text += "shard " + std::to_string(s) + " runs; ";
  }
  for (const auto& worker : workers_) {
    if (!worker->alive()) continue;
    const char* phases[] = {"joining", "fetching", "installing", "running", "leaving", "ended"};
    text += "worker " + std::to_string(worker->rank()) + " is " +
            phases[static_cast<int>(worker->session().phase())] + " after round " +
            std::to_string(worker->applied()) + "; ";
  }
  return text.empty() ? "nobody" : text;
}

// Whether a server ended on a stop signal without the orderly end that shard 0 leads. For example,
// a shard may end without having told shard 0, and shard 0 then finds that shard missing.
bool World::StoppedEarly() const {
  for (uint32_t s = 0; any_asked_to_stop_ && s < schedule_.shards(); ++s) {
    if (current_server_[s] == kNobody) continue;
    const Status& status = Server(s)->status();
    if (status.code() == Code::kTerminated && StartsWith(status.message(), "stopped by a signal"))
      return true;
  }
  return false;
}

// Whether a stop was requested in a schedule where a shard is cut off for long. A process that is
// asked to stop does not wait for such a shard.
bool World::StoppedWhileCutOff() const {
  return any_asked_to_stop_ &&
         std::any_of(schedule_.faults.begin(), schedule_.faults.end(), [this](const Fault& fault) {
           return fault.kind == Fault::Kind::kCutServer &&
                  fault.down_time > schedule_.timings.suspect_after;
         });
}

// Judges a job in which hosts have slept for an hour. If all timeouts are longer, and the job does
// not fail or shrink because a worker is silent, it ends as if nobody had slept. In any case all
// processes end, and with a sentence.
void World::JudgeSleep() {
  const Status& shard0_status = Server(0)->status();
  const auto check_end = [&](const std::string& name, const Status& status) {
    const bool is_known = status.ok() || status.code() == Code::kPeerLost;
    if (!is_known || status.ok() != status.message().empty())
      ReportViolation(name + " ended with " + DescribeExit(status));
  };
  for (uint32_t s = 0; s < schedule_.shards(); ++s)
    check_end("shard " + std::to_string(s), Server(s)->status());
  for (const auto& worker : workers_)
    check_end("worker " + std::to_string(worker->rank()), worker->status());
  const Fault& sleep = schedule_.faults[0];
  const protocol::Timings& timings = schedule_.timings;
  if (now_ > sleep.down_time + timings.wait_timeout + timings.server_return_timeout)
    ReportViolation("somebody ended long after all had woken");
  const bool is_short = timings.wait_timeout > sleep.down_time;
  const auto sleeps = [&](uint32_t host) { return (host == sleep.target) != sleep.all_others; };
  bool is_any_silent = false;  // whether shard 0 was awake while a worker slept
  for (uint32_t rank = 0; rank < schedule_.workers; ++rank)
    is_any_silent |= !sleeps(0) && sleeps(schedule_.shards() + rank);
  const bool waits = schedule_.elasticity.on_loss == algorithm::OnLoss::kWait || !is_any_silent;
  if (is_short && waits) return JudgeFinished(Code::kOk);
  if (schedule_.shrinks() && shard0_status.ok()) return JudgeReplicas(Code::kOk);
}

void World::JudgeJobEnd() {
  if (current_server_[0] == kNobody) return ReportViolation("shard 0 never started");
  if (schedule_.HasFaultOfKind(Fault::Kind::kSleep)) return JudgeSleep();
  if (!schedule_.has_rounds()) JudgeLastCheckpoints();
  if (StoppedEarly()) {
    const bool is_undisturbed =
        schedule_.loss + schedule_.delay == 0 && schedule_.faults.size() == 1;
    if (all_asked_to_stop_ && is_undisturbed)
      ReportViolation("all were asked to stop, and did not do so in order");
    return;
  }
  const Status& shard0_status = Server(0)->status();
  if (all_state_lost_ &&
      shard0_status.message().find("no live worker holds the state") != std::string::npos)
    return;
  for (uint32_t s = 1; s < schedule_.shards(); ++s) {
    if (Server(s)->killed()) continue;  // killed while the job was ending, and not restarted
    // Shard 0 repeats its last message only for a limited time, so a shard that is cut off for
    // longer never receives it.
    const bool is_cut_off =
        Server(s)->status().code() == Code::kPeerLost &&
        std::any_of(schedule_.faults.begin(), schedule_.faults.end(), [&](const Fault& fault) {
          return fault.kind == Fault::Kind::kCutServer &&
                 fault.down_time >
                     2 * schedule_.timings.dead_after - schedule_.timings.suspect_after;
        });
    if (Server(s)->status().code() != shard0_status.code() && !is_cut_off) {
      return ReportViolation("shard " + std::to_string(s) + " ended with " +
                             DescribeExit(Server(s)->status()) + ", shard 0 with " +
                             DescribeExit(shard0_status));
    }
  }
  if (StoppedWhileCutOff()) return;
  const bool ended_in_order =
      shard0_status.ok() || (shard0_status.code() == Code::kTerminated && any_asked_to_stop_);
  if (shard0_status.code() == Code::kBadData && may_refuse_start_) return;
  // A lane that cannot move its old checkpoints away cannot go on. A disk that was full from the
  // beginning of the run has nothing of it, like one that is missing.
  if (schedule_.full_disk.changes != 0 &&
      (shard0_status.code() == Code::kCannotWrite || shard0_status.code() == Code::kBadData))
    return;
  if (ended_in_order && must_refuse_start_)
    return ReportViolation("the job began anew, though a disk with checkpoints was missing");
  if (ended_in_order && !schedule_.has_rounds()) JudgeTotals();
  if (ended_in_order)
    return schedule_.shrinks() ? JudgeReplicas(shard0_status.code())
                               : JudgeFinished(shard0_status.code());
  if (shard0_status.code() == Code::kMismatch && MayEndAsReplicasDiffer()) return;
  const bool fails_at_loss = schedule_.elasticity.on_loss == algorithm::OnLoss::kFail;
  if (fails_at_loss && !schedule_.faults.empty()) return JudgeFailure();
  if (schedule_.shrinks() && (MayHaveLostState() || HasLostAllWorkers())) return;
  ReportViolation("shard 0 ended with " + DescribeExit(shard0_status));
}

bool World::MayEndAsReplicasDiffer() const {
  if (!round_of_flip_.has_value()) return false;
  // The workers send a digest of their state after every odd round.
  const uint64_t agreed_round = *round_of_flip_ == 0 ? 0 : (*round_of_flip_ - 1) / 2 * 2 + 1;
  std::vector<const std::vector<pb::Checkpoint>*> offers;
  for (const WorkerDisk& disk : worker_disks_) offers.push_back(&disk.saved().checkpoints);
  return !protocol::NewestCommonCheckpoint(offers, agreed_round).has_value();
}

// Whether shard 0 reports, under shrink, that no copy of the state is left, and the faults can be
// the cause: a worker that was removed drops its copy, so faults at more than one worker may leave
// no copy.
bool World::MayHaveLostState() const {
  const auto hits_worker = [](const Fault& fault) {
    return fault.kind == Fault::Kind::kKillWorker || fault.kind == Fault::Kind::kFreezeWorker ||
           fault.kind == Fault::Kind::kReplaceWorker;
  };
  return std::count_if(schedule_.faults.begin(), schedule_.faults.end(), hits_worker) > 1 &&
         Server(0)->status().message().find("no live worker holds the state") != std::string::npos;
}

// Whether shard 0 reports, under shrink, that all workers are gone, and a fault was the cause.
bool World::HasLostAllWorkers() const {
  return schedule_.HasFaultOfKind(Fault::Kind::kKillWorkers) &&
         Server(0)->status().message().find("workers are left") != std::string::npos;
}

// Judges an orderly end under shrink: every worker that no fault hit must have reached the end, and
// all workers that reached it must have the same state.
void World::JudgeReplicas(Code code) {
  bool any_finished = false;
  for (const auto& worker : workers_) {
    const std::string name = "worker " + std::to_string(worker->rank());
    if (worker->killed() || worker->frozen() || worker->status().code() != code) {
      if (!HasFaultFor(worker->rank()) && !StoppedWithoutShard0(*worker))
        ReportViolation(name + " ended with " + DescribeExit(worker->status()));
      any_finished |= (worker->killed() || StoppedWithoutShard0(*worker)) && worker->leaving();
      continue;
    }
    if (!worker->leaving()) continue;  // the job was stopped before this worker had begun
    any_finished = true;
    if (!worker->HasRightState()) ReportViolation(name + " ended with a wrong state");
    if (schedule_.has_rounds() && worker->applied() != schedule_.rounds && !any_asked_to_stop_)
      ReportViolation(name + " ended early");
  }
  if (!any_finished) ReportViolation("nobody finished");
}

// Judges an end under fail: shard 0 and every worker that was not killed must have ended with code
// 75 and a message that names the lost rank.
void World::JudgeFailure() {
  const std::string name = "worker " + std::to_string(schedule_.faults[0].target) + " ";
  const auto is_wrong = [&](const Status& status) {
    return status.code() != Code::kPeerLost || status.message().find(name) == std::string::npos;
  };
  if (is_wrong(Server(0)->status()))
    return ReportViolation("shard 0 ended with " + DescribeExit(Server(0)->status()));
  for (const auto& worker : workers_) {
    if (worker->killed() || !is_wrong(worker->status())) continue;
    ReportViolation("worker " + std::to_string(worker->rank()) + " ended with " +
                    DescribeExit(worker->status()));
  }
}

// Judges an orderly end without shrink: one process of every rank must have reached the end, and
// all of these must have the same state.
void World::JudgeFinished(Code code) {
  std::vector<bool> has_finished(schedule_.workers);
  uint64_t last_round = 0;
  for (const auto& worker : workers_) {
    const std::string name = "worker " + std::to_string(worker->rank());
    const bool reached_end =
        worker->leaving() && (worker->killed() || worker->frozen() ||
                              StoppedWithoutShard0(*worker) || worker->status().code() == code);
    if (reached_end) {
      has_finished[worker->rank()] = true;
      // A killed worker may not have known of the stop request, so its last round is not compared.
      const bool may_miss_stop = worker->killed() && any_asked_to_stop_;
      if (last_round != 0 && worker->applied() != last_round && !may_miss_stop)
        return ReportViolation(name + " ended at another round");
      if (!may_miss_stop) last_round = worker->applied();
      if (!worker->HasRightState()) return ReportViolation(name + " ended with a wrong state");
    } else if (!worker->killed() && !worker->frozen() && worker->admitted() &&
               !StoppedWithoutShard0(*worker) &&
               !schedule_.HasFaultOfKind(Fault::Kind::kReplaceWorker)) {
      return ReportViolation(name + " ended with " + DescribeExit(worker->status()));
    }
  }
  for (uint32_t rank = 0; rank < schedule_.workers; ++rank) {
    if (!has_finished[rank])
      return ReportViolation("worker " + std::to_string(rank) + " never finished");
  }
  if (schedule_.has_rounds() && last_round != schedule_.rounds && !any_asked_to_stop_)
    ReportViolation("the job ended early");
}

// Judges the number of pushes in a job without rounds. After some cell has counted all pushes of
// the job, each worker process pushes at most once more. So every cell's count is at most the job's
// pushes plus one for every worker process. The count may be below the job's pushes, because pushes
// may be dropped, or lost when processes die.
void World::JudgeTotals() {
  const Clocks& clocks = schedule_.clocks;
  const uint64_t max_pushes = clocks.pushes + workers_.size();
  const uint64_t max_dead_processes = workers_.size() - schedule_.workers + schedule_.faults.size();
  const bool must_be_exact = clocks.max_staleness == 0 && !any_asked_to_stop_ &&
                             !schedule_.HasFaultOfKind(Fault::Kind::kKillServer);
  for (uint32_t s = 0; s < schedule_.shards(); ++s) {
    for (const auto& lane : Server(s)->lanes()) {
      const uint64_t total = lane->total();
      if (lane->has_cells() &&
          (total > max_pushes || (must_be_exact && total + max_dead_processes < clocks.pushes)))
        ReportViolation("shard " + std::to_string(s) + " counted " + std::to_string(total) +
                        " pushes");
    }
  }
}

// Judges the last checkpoints of a job without rounds. Shard 0 names a step when the job ends, also
// if a signal or an error ends it. Every shard that shard 0 has told of the end must have a
// checkpoint of that step on its disk, unless a fault has struck the disk.
void World::JudgeLastCheckpoints() {
  const uint64_t last_step = Server(0)->last_step();
  const Status& shard0_status = Server(0)->status();
  // A server that was started again at the end may know of no step.
  if (last_step == 0 && shard0_status.ok() && !schedule_.HasFaultOfKind(Fault::Kind::kKillServer))
    return ReportViolation("shard 0 named no last checkpoint");
  for (uint32_t s = 0; last_step != 0 && s < schedule_.shards(); ++s) {
    if (current_server_[s] == kNobody || Server(s)->killed()) continue;
    const Status& status = Server(s)->status();
    const bool was_told =
        status.code() == shard0_status.code() && status.message() == shard0_status.message();
    const bool is_disk_faulty = schedule_.full_disk.changes != 0 || write_faults_[s] != nullptr;
    if (!was_told || is_disk_faulty) continue;
    for (const auto& lane : Server(s)->lanes()) {
      if (!lane->has_cells() || !lane->lane().lane().open()) continue;
      const auto checkpoints = lane->lane().Saved()->checkpoints;
      if (checkpoints.empty() || checkpoints.back().step() != last_step)
        ReportViolation("shard " + std::to_string(s) + " has no checkpoint of the last step " +
                        std::to_string(last_step));
    }
  }
}

}  // namespace tern::sim
