// A data lane of a schedule whose servers hold the state of the job. It runs the real
// server::DataLane, with its rules and checkpoints, on a disk in memory, and reports every change
// of its cells to the World.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "server/data_lane.h"
#include "tests/sim/toy.h"

namespace tern::sim {

class World;

class PlayedLane {
 public:
  // `world` outlives it.
  PlayedLane(World* world, protocol::LaneRef name, server::DataLane::Options options);

  void OnMembers(const pb::Members& members, protocol::Sends* out);
  void OnMessage(protocol::Peer from, const protocol::Message& message, protocol::Sends* out);
  void Stop(protocol::Sends* out);
  void AfterMessages();
  void Finish() { lane_->Finish(); }

  bool has_cells() const { return !cells_.empty(); }
  const server::DataLane& lane() const { return *lane_; }
  // In a job without rounds: the pushes of all ranks to the cell that has counted least.
  uint64_t total() const { return lane_->central()->clock_lane()->total(); }

 private:
  uint64_t total(const protocol::Cell& cell) const {
    return lane_->central()->clock_lane()->clocks(cell).total;
  }
  std::string Name() const;
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> Saved() const;
  // Call after every event: reports the checkpoints to the World if the disk has changed.
  void TellSaved();
  // Without rounds: reports the push of `message` if the lane has counted it.
  void TellPush(const protocol::Message& message);
  // With rounds: reports the answers of closed rounds.
  void TellAnswers(const protocol::Sends& sends, size_t from);

  World* world_;
  const protocol::LaneRef name_;
  const bool has_rounds_;
  std::vector<protocol::Cell> cells_;
  std::unique_ptr<server::DataLane> lane_;
  uint64_t changes_ = 0;  // of its disk, when checkpoints were last reported
};

}  // namespace tern::sim
