// The simulation of one schedule: its clock, random numbers, network, processes and faults; and the
// final verdict (judge.cc).
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
#include "tests/sim/toy.h"
#include "tests/sim/toy_server.h"
#include "tests/sim/toy_worker.h"

namespace tern::sim {

class World : private Network::Host {
 public:
  // `trace`: a stream to which every event is written, or null.
  World(const Schedule& schedule, const protocol::Safeguards& safeguards, std::ostream* trace);

  // Plays the schedule to its end. Returns the first violation, or an empty string.
  std::string Run();

  uint64_t events() const { return events_; }
  uint64_t messages() const { return network_.messages(); }

  // --- Called by the processes.
  Time now() const { return now_; }
  Rng& rng() { return rng_; }
  Network& network() { return network_; }
  const Schedule& schedule() const { return schedule_; }
  const protocol::Safeguards& safeguards() const { return safeguards_; }
  const Layout& layout() const { return layout_; }
  const Report* report() const { return &report_; }
  // Whether `state` is a right state after `round`: the fault-free one; or, if rounds may close
  // without some workers, the same as every other process's; or, if servers hold the state, what
  // their lanes had under one beginning.
  bool IsState(uint64_t round, const State& state);
  // If servers hold the state: a lane has adopted this beginning, which continues after round
  // `begin`.
  void Begins(uint64_t beginning, uint64_t begin);
  // If servers hold the state: a lane reports a cell's word after a round.
  void Closed(uint64_t beginning, const protocol::Cell& cell, uint64_t round, uint64_t word);
  Ledger& ledger() { return ledger_; }
  ClockLedger& clocks() { return clocks_; }
  // A shard's disk, which outlives the shard's processes.
  MemoryStorage& disk(uint32_t shard) { return disks_[shard]; }
  // If servers hold the state: the job of their lanes.
  const setup::Setup& job() const { return *job_; }
  CheckpointDisk& checkpoints(uint32_t rank) { return checkpoint_disks_[rank]; }
  bool stopped() const { return stopped_; }  // a request to stop has reached a server
  // Whether any fault of the schedule, also a future one, strikes this worker.
  bool WasStruck(uint32_t rank) const;
  pb::Hello Expected() const;
  void Post(Time after, Event::Type type, uint32_t who, uint32_t index) {
    queue_.Post(now_ + after, type, who, index);
  }
  void Reached(uint32_t rank, Fault::Point point, uint64_t round);
  void OnWorkerEnded(const ToyWorker& worker);
  // The checkpoints on a lane's disk, each as (step, round, run). HasSaved: of a running process.
  // FindsSaved: of a starting process, which must find all that were there except those that the
  // disk lost.
  using Checkpoints = std::set<std::tuple<uint64_t, uint64_t, uint64_t>>;
  void HasSaved(protocol::LaneRef lane, Checkpoints now) { saved_[lane] = std::move(now); }
  void FindsSaved(protocol::LaneRef lane, const Checkpoints& now);
  // If a fault has stopped the disk of this server process: kills the process and returns true.
  bool DiesInWrite(uint32_t process);
  void Violation(const std::string& what);
  template <typename Text>
  void Trace(const Text& text) {
    if (trace_ != nullptr) Tell(text());
  }

 private:
  uint32_t Listening(protocol::LaneRef lane, uint32_t port) override;
  void DeliverToServer(const Connection& connection, protocol::Peer peer,
                       const protocol::Message& message) override;
  void DeliverToClient(const Connection& connection, const protocol::Message& message) override;
  void Disconnected(const Connection& connection) override;
  bool HeldBack(const Connection& connection) override;

  void CheckMachines();
  void Handle(const Event& event);
  void StartWorker(uint32_t rank);
  void StartServer(uint32_t shard);
  void Strike(const Fault& fault);
  void StrikeWorker(const Fault& fault);
  void StrikeAll(const Fault& fault);
  bool HaveCommonCheckpoint() const;
  bool SomeIsLostAndSomeIsNot() const;
  void StrikeServer(const Fault& fault);
  void KillServer(uint32_t process, const Fault& fault);
  void StrikeBySignal(const Fault& fault);
  // Forgets the states of rounds that only dead or frozen workers have applied, because such rounds
  // may close again, and differently.
  void ForgetStatesOfTheAbsent();
  bool IsOfLanes(uint64_t round, const State& state) const;
  bool IsEnding() const;  // whether a daemon has been told that the job is done
  bool HasDonorBeside(uint32_t rank) const;
  ToyWorker* LiveWorker(uint32_t rank) const;
  ToyServer* Server(uint32_t shard) const { return servers_[current_server_[shard]].get(); }
  bool IsOver() const;
  void CheckBounds();
  void Tell(const std::string& text);

  // judge.cc
  void Judge();
  bool StoppedEarly() const;  // by a signal, but not in order, because a worker was missing
  bool StoppedWhileCutOff() const;
  void JudgeFailure();
  void JudgeFinished(Code code);
  void JudgeReplicas(Code code);
  void JudgeTotals();
  bool MayHaveLostState() const;
  std::string Missing() const;

  const Schedule& schedule_;
  protocol::Safeguards safeguards_;
  std::ostream* trace_;
  Rng rng_;
  Queue queue_;
  Network network_;
  Layout layout_;
  std::vector<State> fault_free_;
  std::vector<std::optional<State>> states_;  // by round: as the first process had it
  // If servers hold the state: for each beginning and cell, the word after each round.
  using Words = std::array<std::map<uint64_t, uint64_t>, kBuckets * kChunks>;
  std::map<uint64_t, Words> words_;
  uint64_t beginning_ = 0;  // the newest
  Ledger ledger_;
  ClockLedger clocks_;
  Rng disk_rng_;
  std::vector<MemoryStorage> disks_;  // by shard
  // By shard: the fault that kills it in one of its next writes, or null
  std::vector<const Fault*> in_write_;
  // By shard: how many checkpoints its last fault may have destroyed
  std::vector<int> disk_loses_;
  std::map<protocol::LaneRef, Checkpoints> saved_;
  std::unique_ptr<setup::Setup> job_;
  std::vector<CheckpointDisk> checkpoint_disks_;  // by rank
  bool all_is_lost_ = false;  // all workers died, and had no checkpoint in common
  // When all were last killed, some checkpoints were torn or lost and others were left, so the job
  // must refuse to start again. (Except that a living server may know that the job was done.)
  bool must_refuse_ = false;
  bool may_refuse_ = false;  // the job may refuse to start, because a worker lacked a checkpoint
  Report report_;
  Time now_{};
  uint64_t events_ = 0;
  std::vector<std::unique_ptr<ToyWorker>> workers_;  // all processes so far
  std::vector<std::unique_ptr<ToyServer>> servers_;
  std::vector<uint32_t> processes_of_;    // by rank: how many so far
  std::vector<uint32_t> current_server_;  // by shard
  std::vector<bool> struck_;              // by fault
  bool stopped_ = false;                  // a daemon was asked to stop
  bool all_stopped_ = false;              // all daemons were, while all workers trained
  uint32_t starting_ = 0;
  std::string violation_;
};

// Plays a schedule. Returns the first violation, or an empty string.
std::string Play(const Schedule& schedule, const protocol::Safeguards& safeguards = {},
                 std::ostream* trace = nullptr);

}  // namespace tern::sim
