// A simulated worker process: drives a Session as the worker daemon does. Subclasses define what it
// trains.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/protocol/members/session/session.h"
#include "tests/sim/network.h"
#include "tests/sim/toy.h"

namespace tern::sim {

class World;

class ToyWorker {
 public:
  ToyWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation);
  virtual ~ToyWorker() = default;

  void Start();
  void OnMessage(protocol::LaneRef lane, const protocol::Message& message);
  void OnDisconnected(protocol::LaneRef lane);
  void OnTick();
  void OnTask(uint32_t task);  // a task that Later() posted
  void OnStop();
  void Kill(bool hold);
  void Freeze() { frozen_ = true; }
  void Thaw();

  bool alive() const { return alive_; }  // neither killed nor ended
  bool killed() const { return killed_; }
  // What it sent must not arrive before its successor is admitted
  bool held() const { return held_; }
  bool frozen() const { return frozen_; }
  bool ready() const { return ready_; }        // has received the job's state
  bool leaving() const { return leaving_; }    // has sent Bye
  bool admitted() const { return admitted_; }  // by shard 0
  uint32_t rank() const { return rank_; }
  uint64_t applied() const { return applied_; }
  const Status& status() const { return status_; }
  const protocol::Session& session() const { return *session_; }
  // Whether its state is right, if workers that have applied the same rounds must have the same
  // state.
  virtual bool HasRightState() const { return true; }

 protected:
  enum class Task : uint32_t { kStep, kSnapshot, kInstalled, kFinish };

  // What a trainer does. OnInstall and Restarts() cancel all tasks that were posted before.
  virtual Bytes SaveState() const { return {}; }
  virtual void OnInstall(const Bytes& /*state*/) {}
  // If the job has checkpoints: writes one to the disk at once.
  void WriteCheckpoint(const Replica& replica);
  // Pulls the state after `applied` from the servers.
  virtual void OnGoBack() {}
  virtual void OnReady(uint64_t stop_after) = 0;
  virtual void OnAnswer(const protocol::Exchange::Delivery& answer) = 0;
  virtual void Step() = 0;

  void Contribute(const protocol::Cell& cell, protocol::Contribution contribution);
  void SetApplied(uint64_t applied);
  void Finish();  // after a while
  void Later(Task task, Time after);
  void Restarts() { ++generation_; }
  void Violation(const std::string& what);

  World* world_;
  const uint32_t process_;
  const uint32_t rank_;
  uint64_t applied_ = 0;

 private:
  void Act(protocol::SessionActions actions);
  void Do(protocol::SessionAction& action);
  void Install(const protocol::SessionAction& action);
  void GoBack(const protocol::SessionAction& action);
  void Resume(const protocol::SessionAction& action);
  void BeginRun(uint64_t run);

  std::unique_ptr<protocol::Session> session_;
  std::vector<std::vector<uint32_t>> connections_;  // by shard, lane
  bool alive_ = true, killed_ = false, held_ = false, frozen_ = false, ready_ = false;
  bool leaving_ = false, admitted_ = false;
  uint32_t generation_ = 0;  // tasks of an older generation are cancelled
  std::vector<std::pair<protocol::LaneRef, protocol::Message>> inbox_;  // while frozen
  std::vector<protocol::LaneRef> broken_;                               // while frozen
  std::vector<uint32_t> tasks_;                                         // while frozen
  uint64_t progress_ = 0, run_ = 0;
  Status status_;
};

// Makes a worker of the kind that the schedule needs.
std::unique_ptr<ToyWorker> MakeWorker(World* world, uint32_t process, uint32_t rank,
                                      uint64_t incarnation);

}  // namespace tern::sim
