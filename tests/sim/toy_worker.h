// A simulated worker process. Drives a protocol::Session (the worker's side of the protocol) as the
// real worker does. Subclasses define what the worker contributes and how it handles answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/train/checkpoints.h"
#include "common/protocol/members/session/session.h"
#include "tests/sim/network.h"
#include "tests/sim/toy.h"
#include "tests/sim/toy_host.h"

namespace tern::sim {

class World;

class ToyWorker {
 public:
  ToyWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation);
  virtual ~ToyWorker() = default;

  void Start();
  void OnMessage(protocol::LaneRef lane, const protocol::Message& message);
  // A process of this worker's host has sent a message.
  void OnHostMessage(uint32_t from, const protocol::Message& message);
  void OnDamaged(protocol::LaneRef lane);  // a message of this lane has arrived damaged
  void OnDisconnected(protocol::LaneRef lane);
  void OnTick();
  void OnTask(uint32_t task);  // runs a task that PostTask() has posted
  void OnStop();
  void Kill(bool holds_messages);
  void Freeze() { is_frozen_ = true; }
  // Like Freeze(), for a process on a host that sleeps: its clock stands still until Thaw().
  void Sleep();
  void Thaw();

  bool alive() const { return is_alive_; }  // neither killed nor ended
  bool killed() const { return was_killed_; }
  // Whether messages that this process sent before it was killed must not arrive before the process
  // that replaces it is admitted.
  bool messages_held() const { return holds_messages_; }
  bool frozen() const { return is_frozen_; }
  bool ready() const { return is_ready_; }        // has received the job's state
  bool leaving() const { return is_leaving_; }    // has sent Bye, the last message of a worker
  bool admitted() const { return is_admitted_; }  // shard 0 has accepted this process
  uint32_t rank() const { return rank_; }
  uint64_t applied() const { return applied_; }
  const Status& status() const { return status_; }
  const protocol::Session& session() const { return *session_; }
  // Whether the worker's state is right for its applied round. Always true in jobs without rounds,
  // where the workers' states differ.
  virtual bool HasRightState() const { return true; }
  // A bit of this worker's weights flips, unless it has sent its last figures. Returns whether it
  // did. Only for jobs with rounds.
  virtual bool FlipBit() { return false; }

 protected:
  enum class Task : uint32_t { kStep, kSnapshot, kInstalled, kFinish };

  // The virtual functions down to MakeStep do what a training thread does. Before OnInstall and
  // OnGoBack are called, all posted tasks are cancelled (see CancelTasks).
  virtual Bytes SaveState() const { return {}; }
  virtual void OnInstall(const Bytes& /*state*/) {}
  // Writes a checkpoint to the disk of this worker's rank. REQUIRES that the job has checkpoints.
  void WriteCheckpoint(const Replica& replica);
  // Pulls the state after round applied_ from the servers.
  virtual void OnGoBack() {}
  virtual void OnReady(uint64_t stop_after) = 0;
  virtual void OnAnswer(const protocol::Exchange::Delivery& answer) = 0;
  virtual void MakeStep() = 0;

  void Contribute(const protocol::Cell& cell, protocol::Contribution contribution);
  void SetApplied(uint64_t applied);
  // Asks for a checkpoint of all daemons, as SIGUSR1 does.
  void RequestCheckpoint() { session_->RequestCheckpoint(); }
  // Posts the task that ends this worker in order, a random time from now.
  void Finish();
  // Posts a task to run a time `after` from now.
  void PostTask(Task task, Time after);
  // Cancels all posted tasks.
  void CancelTasks() { ++generation_; }
  void ReportViolation(const std::string& what);

  World* world_;
  const uint32_t process_number_;  // index among all worker processes of the World
  const uint32_t rank_;
  uint64_t applied_ = 0;

 private:
  Time Now() const;  // the time by this process's clock
  void PerformActions(protocol::SessionActions actions);
  void PerformAction(protocol::SessionAction& action);
  void InstallState(const protocol::SessionAction& action);
  void GoBackToRound(const protocol::SessionAction& action);
  void ResumeFromCheckpoint(const protocol::SessionAction& action);
  void BeginRun(uint64_t run);
  void OfferCheckpoints();

  std::optional<client::DiskCheckpoints> checkpoints_;  // if the job's workers write checkpoints
  std::unique_ptr<protocol::Session> session_;
  std::optional<ToyHost> host_;                     // if the schedule has hosts
  std::vector<std::vector<uint32_t>> connections_;  // connections_[shard][lane]
  bool is_alive_ = true, was_killed_ = false, holds_messages_ = false, is_frozen_ = false,
       is_ready_ = false;
  bool is_leaving_ = false, is_admitted_ = false;
  std::optional<Time> asleep_since_;  // set while the process sleeps
  Time slept_{};                      // how long it has slept so far
  uint32_t generation_ = 0;           // tasks of an older generation are cancelled
  std::vector<std::pair<protocol::LaneRef, protocol::Message>>
      inbox_;  // messages that arrived while frozen
  // The same from processes of its host.
  std::vector<std::pair<uint32_t, protocol::Message>> host_inbox_;
  // Lanes whose connection broke while this process was frozen.
  std::vector<protocol::LaneRef> lanes_broken_while_frozen_;
  std::vector<uint32_t> tasks_due_while_frozen_;  // tasks that became due while frozen
  // The number of contributions so far, and the number of the job's run (for checkpoints).
  uint64_t progress_ = 0, run_ = 0;
  Status status_;
};

// Makes a worker of the kind that the schedule needs.
std::unique_ptr<ToyWorker> MakeWorker(World* world, uint32_t process, uint32_t rank,
                                      uint64_t incarnation);

}  // namespace tern::sim
