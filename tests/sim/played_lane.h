// A data lane (the part of a server that serves one data socket) of a simulated job whose servers
// hold the weights. Runs the real server::DataLane, with its update rules and checkpoints, on a
// simulated disk in memory, and reports every change of its weights to the World. A cell is one
// chunk of the weights; a job with rounds closes every cell once per round.
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
  // `world` must outlive this object.
  PlayedLane(World* world, protocol::LaneRef lane_ref, server::DataLane::Options options);

  void OnMembers(const pb::Members& members, protocol::Sends* out);
  void OnMessage(protocol::Peer from, const protocol::Message& message, protocol::Sends* out);
  void Stop(protocol::Sends* out);
  void AfterMessages();
  void Finish(uint64_t last_step) { (void)lane_->Finish(last_step); }

  bool has_cells() const { return !cells_.empty(); }
  const server::DataLane& lane() const { return *lane_; }
  // In a job without rounds: the number of pushes that the lane's slowest cell has counted, the
  // pushes of all ranks together.
  uint64_t total() const { return lane_->central()->clock_lane()->total(); }

 private:
  // In a job without rounds: the number of pushes of all ranks that the cell has counted.
  uint64_t total(const protocol::Cell& cell) const {
    return lane_->central()->clock_lane()->clocks(cell).total;
  }
  // Returns "lane <shard>.<lane>".
  std::string DisplayName() const;
  // The checkpoints on the lane's disk, each as (step, round, run).
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> CheckpointsOnDisk() const;
  // Reports the checkpoints to the World if the disk has changed. Must be called after every event.
  void ReportCheckpoints();
  // In a job without rounds: reports the push in `message` to the World if the lane has counted it.
  void ReportPush(const protocol::Message& message);
  // In a job with rounds: reports the results of closed rounds that sends[from], sends[from + 1],
  // ... contain.
  void ReportAnswers(const protocol::Sends& sends, size_t from);

  World* world_;
  const protocol::LaneRef lane_ref_;
  const bool has_rounds_;
  std::vector<protocol::Cell> cells_;
  std::unique_ptr<server::DataLane> lane_;
  uint64_t reported_disk_changes_ =
      0;  // the disk's number of changes when checkpoints were last reported
};

}  // namespace tern::sim
