// A worker process of the toy job: drives a Session as the worker daemon does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/protocol/session.h"
#include "tests/sim/network.h"
#include "tests/sim/toy.h"

namespace tern::sim {

class World;

class ToyWorker {
 public:
  enum class Task : uint32_t { kStep, kSnapshot, kInstalled, kFinish };

  ToyWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation);

  void Start();
  void OnMessage(protocol::LaneRef lane, const protocol::Message& message);
  void OnDisconnected(protocol::LaneRef lane);
  void OnTick();
  void OnTask(uint32_t task);  // as it was posted
  void Kill(bool hold);
  void Freeze() { frozen_ = true; }
  void Thaw();

  bool alive() const { return alive_; }  // neither killed nor ended
  bool killed() const { return killed_; }
  bool held() const { return held_; }  // what it sent must not arrive before a successor
  bool frozen() const { return frozen_; }
  bool ready() const { return ready_; }        // has had state
  bool leaving() const { return leaving_; }    // said Bye
  bool admitted() const { return admitted_; }  // by shard 0
  uint32_t rank() const { return rank_; }
  uint64_t applied() const { return applied_; }
  const State& state() const { return replica_.now; }
  const Status& status() const { return status_; }
  const protocol::Session& session() const { return *session_; }

 private:
  // What is in of a round that is not applied.
  struct Round {
    std::array<uint64_t, kBuckets * kChunks> sums{};
    uint32_t answers = 0;
    std::array<bool, kBuckets> has_scaled{};
    std::array<uint64_t, kBuckets> scaled{};
    Bytes figures;
  };

  void Act(protocol::SessionActions actions);
  void Do(protocol::SessionAction& action);
  void OnInstall(const protocol::SessionAction& action);
  void OnReady(uint64_t applied, uint64_t stop_after);
  // Applies what is complete, and sees to the next step.
  void GoOn();
  void Step();
  void PushBucket(uint64_t round, uint32_t bucket);
  void OnAnswer(const protocol::Exchange::Delivery& answer);
  void CheckAnswer(const protocol::Exchange::Delivery& answer);
  bool ApplyOne();
  void CheckFigures(const Bytes& figures);
  void FinishIfDone();
  void Contribute(const protocol::Cell& cell, uint64_t round, uint64_t digest, uint64_t word);
  uint64_t last() const;
  // The state at which the gradient of `round` is taken.
  const State& PointOf(uint64_t round) const;
  void Later(Task task, Time after);
  void Violation(const std::string& what);

  World* world_;
  uint32_t process_;
  uint32_t rank_;
  std::unique_ptr<protocol::Session> session_;
  std::vector<std::vector<uint32_t>> connections_;  // by shard, lane
  bool alive_ = true, killed_ = false, held_ = false, frozen_ = false, ready_ = false;
  bool finishing_ = false, leaving_ = false, admitted_ = false;
  bool computing_ = false;   // a step is on its way
  uint32_t generation_ = 0;  // of the state; tasks of an older one are void
  std::vector<std::pair<protocol::LaneRef, protocol::Message>> inbox_;  // while frozen
  std::vector<protocol::LaneRef> broken_;                               // while frozen
  std::vector<uint32_t> tasks_;                                         // while frozen
  Replica replica_;
  uint64_t applied_ = 0, stepped_ = 0, stop_after_ = 0, progress_ = 0;
  std::map<uint64_t, Round> rounds_;
  Status status_;
};

}  // namespace tern::sim
