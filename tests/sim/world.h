// Everything that one schedule plays with: the clock, the dice, the network, the processes and the
// faults that strike them; and the judgement at the end.
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
  // `trace`: where every event is told, or null.
  World(const Schedule& schedule, const protocol::Safeguards& safeguards, std::ostream* trace);

  // Plays the schedule to its end. What was not as it must be, or nothing.
  std::string Run();

  uint64_t events() const { return events_; }
  uint64_t messages() const { return network_.messages(); }

  // For the processes.
  Time now() const { return now_; }
  Rng& rng() { return rng_; }
  Network& network() { return network_; }
  const Schedule& schedule() const { return schedule_; }
  const protocol::Safeguards& safeguards() const { return safeguards_; }
  const Layout& layout() const { return layout_; }
  const Report* report() const { return &report_; }
  // Whether that is the state after a round: the fault-free one; or where rounds may close without
  // some, the same as everybody's, where servers hold it: as all lanes of some beginning had it.
  bool IsState(uint64_t round, const State& state);
  // Where servers hold the state. A lane follows this beginning: all go on after round `begin`.
  void Begins(uint64_t beginning, uint64_t begin);
  // ... A lane says which word a cell had after that round.
  void Closed(uint64_t beginning, const protocol::Cell& cell, uint64_t round, uint64_t word);
  Ledger& ledger() { return ledger_; }
  ClockLedger& clocks() { return clocks_; }
  // The disk of a shard, which outlives its processes.
  MemoryStorage& disk(uint32_t shard) { return disks_[shard]; }
  // The job of the lanes, where servers hold the state.
  const setup::Setup& job() const { return *job_; }
  CheckpointDisk& checkpoints(uint32_t rank) { return checkpoint_disks_[rank]; }
  bool stopped() const { return stopped_; }  // a stop reached a server
  // Whether a fault is of this worker, also one that is still to come.
  bool WasStruck(uint32_t rank) const;
  pb::Hello Expected() const;
  void Post(Time after, Event::Type type, uint32_t who, uint32_t index) {
    queue_.Post(now_ + after, type, who, index);
  }
  void Reached(uint32_t rank, Fault::Point point, uint64_t round);
  void OnWorkerEnded(const ToyWorker& worker);
  // The checkpoints on a lane's disk, by step, round and run: of a process that runs; of one that
  // starts, which must find all but what its disk has lost.
  using Checkpoints = std::set<std::tuple<uint64_t, uint64_t, uint64_t>>;
  void HasSaved(protocol::LaneRef lane, Checkpoints now) { saved_[lane] = std::move(now); }
  void FindsSaved(protocol::LaneRef lane, const Checkpoints& now);
  // The disk of a server process does not change any more, since it dies. False: it does not.
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
  // Where rounds may close without some, what only those had applied never was, if its server is
  // gone as well.
  void ForgetStatesOfTheAbsent();
  bool IsOfLanes(uint64_t round, const State& state) const;
  bool IsEnding() const;  // somebody has been told that all is done
  bool HasDonorBeside(uint32_t rank) const;
  ToyWorker* LiveWorker(uint32_t rank) const;
  ToyServer* Server(uint32_t shard) const { return servers_[current_server_[shard]].get(); }
  bool IsOver() const;
  void CheckBounds();
  void Tell(const std::string& text);

  // judge.cc
  void Judge();
  bool StoppedEarly() const;  // by a signal, and not in order, since a worker was missing
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
  std::vector<std::optional<State>> states_;  // by round, as somebody had it first
  // Where servers hold the state, by beginning: of each cell the words after its rounds.
  using Words = std::array<std::map<uint64_t, uint64_t>, kBuckets * kChunks>;
  std::map<uint64_t, Words> words_;
  uint64_t beginning_ = 0;  // the newest
  Ledger ledger_;
  ClockLedger clocks_;
  Rng disk_rng_;
  std::vector<MemoryStorage> disks_;    // by shard
  std::vector<const Fault*> in_write_;  // by shard: who dies in its next writes, or null
  std::vector<int> disk_loses_;         // by shard: checkpoints at its last fault, at most
  std::map<protocol::LaneRef, Checkpoints> saved_;
  std::unique_ptr<setup::Setup> job_;
  std::vector<CheckpointDisk> checkpoint_disks_;  // by rank
  bool all_is_lost_ = false;  // all workers died, and no checkpoint was common to them
  // ... at the last disaster, since something on a disk was torn or lost, and something is left. A
  // server that lives may have heard that all was done.
  bool must_refuse_ = false;
  bool may_refuse_ = false;  // ... or since a worker had missed one
  Report report_;
  Time now_{};
  uint64_t events_ = 0;
  std::vector<std::unique_ptr<ToyWorker>> workers_;  // every process there was
  std::vector<std::unique_ptr<ToyServer>> servers_;
  std::vector<uint32_t> processes_of_;    // by rank, how many there were
  std::vector<uint32_t> current_server_;  // by shard
  std::vector<bool> struck_;              // by fault
  bool stopped_ = false;                  // somebody was asked to stop
  bool all_stopped_ = false;              // everybody was, while all of them trained
  uint32_t starting_ = 0;
  std::string violation_;
};

// Plays a schedule. What was not as it must be, or nothing.
std::string Play(const Schedule& schedule, const protocol::Safeguards& safeguards = {},
                 std::ostream* trace = nullptr);

}  // namespace tern::sim
