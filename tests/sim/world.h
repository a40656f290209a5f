// Simulates one schedule (a job with its faults): has the simulated clock, random numbers, network,
// disks and processes, injects the faults (faults.cc), and judges at the end whether all went well
// (judge.cc).
//
// Words used here: a cell is one reduction over the workers, such as the pushes of a chunk of the
// model. A lane is one socket of a server shard with its state machine. The state of the model is
// one 64-bit word per chunk. A beginning is the number of a start of the job: a new one tells all
// processes to go back to an earlier round.
#pragma once

#include <array>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "setup/setup.h"
#include "tests/common/base/memory_storage.h"
#include "tests/sim/clock_ledger.h"
#include "tests/sim/ledger.h"
#include "tests/sim/network.h"
#include "tests/sim/schedule.h"
#include "tests/sim/stranger.h"
#include "tests/sim/toy.h"
#include "tests/sim/toy_host.h"
#include "tests/sim/toy_server.h"
#include "tests/sim/toy_worker.h"
#include "tests/sim/worker_disk.h"

namespace tern::sim {

class World : private Network::Host {
 public:
  // Every event is written to `trace`, unless it is null.
  World(const Schedule& schedule, const protocol::Safeguards& safeguards, std::ostream* trace);

  // Simulates the schedule to its end. Returns the first violation, or an empty string.
  std::string Run();

  // With which status a daemon's newest process has ended. REQUIRES that one was started.
  const Status& StatusOfShard(uint32_t shard) const { return Server(shard)->status(); }
  const Status& StatusOfWorker(uint32_t rank) const;
  uint64_t num_events() const { return num_events_handled_; }
  uint64_t num_messages() const { return network_.num_messages(); }
  uint64_t num_pushes() const { return network_.num_pushes(); }
  uint64_t num_host_sums() const { return num_host_sums_; }

  // The rest of the public interface is for the simulated processes.
  Time now() const { return now_; }
  Rng& rng() { return rng_; }
  Network& network() { return network_; }
  Hosts& hosts() { return hosts_; }
  bool IsWorkerAlive(uint32_t process) const { return workers_[process]->alive(); }
  // Records that the leader of a host sends the pushes of so many workers in one message.
  void CountHostSum(size_t num_ranks) { num_host_sums_ += num_ranks > 1; }
  const Schedule& schedule() const { return schedule_; }
  const protocol::Safeguards& safeguards() const { return safeguards_; }
  const Layout& layout() const { return layout_; }
  const Report* report() const { return &report_; }
  // Whether `state` is a right state after `round`. While a worker has weights in which a bit has
  // flipped, its pushes spoil the states of all, so every state of this round or a later one counts
  // as right until the workers have gone back. If the result of the job does not depend on
  // faults, only the state of the run without faults is right. Else, if servers hold the weights,
  // every state is right that the servers' lanes had after this round, under any beginning. If
  // workers hold the weights, the state of the first worker that has applied this round is right.
  bool IsRightState(uint64_t round, const State& state);
  // Records that a worker goes on from its checkpoint of a round.
  void OnResumed(uint64_t round);
  // Records that a lane has adopted a beginning, which continues after round `begin`. Is called
  // only if servers hold the weights.
  void OnBeginning(uint64_t beginning, uint64_t begin);
  // Records the answer that a lane sends for a cell at the end of a round: the cell's new word, or
  // the word's change if the schedule says so. Is called only if servers hold the weights.
  void OnCellClosed(uint64_t beginning, const protocol::Cell& cell, uint64_t round, uint64_t word);
  Ledger& ledger() { return ledger_; }
  ClockLedger& clock_ledger() { return clock_ledger_; }
  // The control machine of shard 0; null if no process of shard 0 runs.
  const protocol::Coordinator* RunningCoordinator() const {
    return current_server_[0] != kNobody && Server(0)->alive() ? &Server(0)->coordinator()
                                                               : nullptr;
  }
  bool HasPlace(uint32_t shard) const { return Server(shard)->has_place(); }
  // The port of a lane of a running shard.
  uint32_t PortOf(protocol::LaneRef lane) const { return Server(lane.shard)->PortOf(lane.lane); }
  // The disk of a shard. It outlives the shard's processes.
  MemoryStorage& disk(uint32_t shard) { return disks_[shard]; }
  // The job to which the servers' lanes and the workers' checkpoints belong. REQUIRES that servers
  // hold the weights, or that workers write checkpoints.
  const setup::Setup& job() const { return *job_; }
  WorkerDisk& worker_disk(uint32_t rank) { return worker_disks_[rank]; }
  // Opens the disk of a worker rank for a new process. REQUIRES that workers write checkpoints.
  client::DiskCheckpoints OpenCheckpoints(uint32_t rank) {
    return worker_disks_[rank].OpenFor(*job_, checkpoint_owner_);
  }
  bool stopped() const { return any_asked_to_stop_; }  // a process was asked to stop
  // Whether the schedule has a fault of this worker, past or future. Stop signals do not count.
  bool HasFaultFor(uint32_t rank) const;
  // The Hello (job name and digests) that servers expect from every process.
  pb::Hello ExpectedHello() const;
  // Posts an event for a time `after` from now.
  void Post(Time after, Event::Type type, uint32_t who, uint32_t index) {
    queue_.Post(now_ + after, type, who, index);
  }
  // Records that a worker has reached a point of a round, and posts the faults that wait for this.
  void OnReached(uint32_t rank, Fault::Point point, uint64_t round);
  void OnWorkerEnded(const ToyWorker& worker);
  // The checkpoints of a lane on its shard's disk, each as (step, round, run).
  using Checkpoints = std::set<std::tuple<uint64_t, uint64_t, uint64_t>>;
  // Records the checkpoints that a lane of a running process has.
  void SetCheckpointsOnDisk(protocol::LaneRef lane, Checkpoints checkpoints) {
    checkpoints_on_disk_[lane] = std::move(checkpoints);
  }
  // Records the checkpoints that a lane of a starting process finds. These must include all
  // checkpoints that the previous process had, except those that a disk fault may have destroyed.
  void CheckCheckpointsOnDisk(protocol::LaneRef lane, const Checkpoints& found_checkpoints);
  // If a fault has stopped the disk of this server process in the middle of a write, kills the
  // process and returns true.
  bool KillIfDiskStopped(uint32_t process);
  void ReportViolation(const std::string& what);
  // Writes the string that text() returns to the trace, if there is one.
  template <typename Text>
  void Trace(const Text& text) {
    if (trace_stream_ != nullptr) WriteTrace(text());
  }

 private:
  uint32_t ListeningProcess(protocol::LaneRef lane, uint32_t port) override;
  void DeliverToServer(const Connection& connection, protocol::Peer peer,
                       const protocol::Message& message) override;
  void DeliverToClient(const Connection& connection, const protocol::Message& message) override;
  void DeliverDamagedToServer(const Connection& connection, protocol::Peer peer) override;
  void DeliverDamagedToClient(const Connection& connection) override;
  void OnDisconnected(const Connection& connection) override;
  // Holds messages of a killed worker back until another process of its rank is admitted.
  bool MustDelayToServer(const Connection& connection) override;

  void CheckInvariants();
  void HandleEvent(const Event& event);
  void StartWorker(uint32_t rank);
  void StartServer(uint32_t shard);

  // The functions down to ForgetStatesOfAbsentWorkers are in faults.cc.
  void InjectFault(const Fault& fault);
  void InjectWorkerFault(const Fault& fault);
  void KillAll(const Fault& fault);
  void PutToSleep(const Fault& fault);
  void FlipBit(const Fault& fault);
  // Does to the workers' disks what the fault says. Sets all_state_lost_, must_refuse_start_ and
  // may_refuse_start_.
  void StrikeWorkerDisks(const Fault& fault);
  void InjectServerFault(const Fault& fault);
  void KillServer(uint32_t process, const Fault& fault);
  void SendStopSignals(const Fault& fault);
  // Forgets the states of rounds that only dead or frozen workers have applied. The remaining
  // workers may repeat such rounds with other contributors, and so reach other states.
  void ForgetStatesOfAbsentWorkers();

  // Whether the servers' lanes had this state after this round, under any beginning.
  bool IsStateOfLanes(uint64_t round, const State& state) const;
  bool IsEnding() const;  // whether any process has been told that the job is done
  // Whether a worker other than `rank` is sure to survive with the state, and can send it to
  // others.
  bool HasDonorOtherThan(uint32_t rank) const;
  // Returns the newest living process of a rank, or null.
  ToyWorker* LiveWorker(uint32_t rank) const;
  // Returns the worker at the other end of a server's connection; null if that is no worker.
  const ToyWorker* WorkerOf(const Connection& connection) const;
  ToyServer* Server(uint32_t shard) const { return servers_[current_server_[shard]].get(); }
  bool IsOver() const;
  void CheckMemoryBounds();
  void WriteTrace(const std::string& text);

  // The remaining functions are in judge.cc.
  void JudgeJobEnd();
  // Whether a job whose replicas differ may end: no checkpoint of a round at which they agreed is
  // on the disks of all workers.
  bool MayEndAsReplicasDiffer() const;
  // Whether a server ended on a stop signal without waiting for the orderly end of the job.
  bool StoppedEarly() const;
  bool StoppedWhileCutOff() const;
  void JudgeFailure();
  void JudgeSleep();
  void JudgeFinished(Code code);
  void JudgeReplicas(Code code);
  void JudgeTotals();
  void JudgeLastCheckpoints();
  bool MayHaveLostState() const;
  bool HasLostAllWorkers() const;
  // Describes the processes that still run.
  std::string DescribeRunningProcesses() const;

  const Schedule& schedule_;
  protocol::Safeguards safeguards_;
  std::ostream* trace_stream_;
  Rng rng_;
  Queue queue_;
  Network network_;
  Hosts hosts_{this};
  uint64_t num_host_sums_ = 0;
  Layout layout_;
  std::vector<State> fault_free_states_;
  std::vector<std::optional<State>>
      first_states_;  // first_states_[r]: the state of the first worker after round r
  // If servers hold the weights: for each beginning and chunk, the word after each round.
  using ChunkHistories = std::array<std::map<uint64_t, uint64_t>, kNumBuckets * kNumChunks>;
  std::map<uint64_t, ChunkHistories> chunk_histories_;
  uint64_t beginning_ = 0;  // the newest beginning
  Ledger ledger_;
  ClockLedger clock_ledger_;
  Rng disk_rng_;
  std::vector<MemoryStorage> disks_;  // the disk of each shard
  // For each shard: the fault that is to kill its process in one of the next disk writes, or null.
  std::vector<const Fault*> write_faults_;
  // For each shard: how many checkpoints its last disk fault may have destroyed.
  std::vector<int> max_lost_checkpoints_;
  std::map<protocol::LaneRef, Checkpoints> checkpoints_on_disk_;
  std::unique_ptr<setup::Setup> job_;
  checkpoint::Owner checkpoint_owner_;    // of the checkpoints on each worker's disk
  std::vector<WorkerDisk> worker_disks_;  // by worker rank
  // The newest round whose state had no flipped bit in it, at the flip; and the same until the
  // workers have gone back to it or to an earlier round.
  std::optional<uint64_t> round_of_flip_, spoiled_after_;
  // All workers, but no servers, were killed while the workers had no checkpoint in common.
  bool all_state_lost_ = false;
  // When all processes were last killed, the workers had no checkpoint in common: some checkpoints
  // were damaged or lost, and others were left. So the job must refuse to start again.
  bool must_refuse_start_ = false;
  // The job may refuse to start or to go on, because a worker lacks a checkpoint, or a shard all.
  bool may_refuse_start_ = false;
  Report report_;
  Stranger stranger_;
  Time now_{};
  uint64_t num_events_handled_ = 0;
  std::vector<std::unique_ptr<ToyWorker>> workers_;  // all worker processes so far, ended ones too
  std::vector<std::unique_ptr<ToyServer>> servers_;  // all server processes so far
  std::vector<uint32_t> num_processes_;              // how many processes each rank has had so far
  std::vector<uint32_t> current_server_;             // the newest process of each shard, or kNobody
  std::vector<bool> is_posted_;                      // for each fault: whether its event was posted
  bool any_asked_to_stop_ = false;                   // a process was asked to stop
  bool all_asked_to_stop_ =
      false;                   // all processes were asked to stop while all workers were training
  uint32_t num_starting_ = 0;  // number of processes whose start is posted
  std::string violation_;
};

// Simulates a schedule. Returns the schedule and its first violation, or an empty string.
std::string Play(const Schedule& schedule, const protocol::Safeguards& safeguards = {},
                 std::ostream* trace = nullptr);

}  // namespace tern::sim
