// One data lane of a shard that holds central parameters: its cells, the protocol machine that
// changes them, and their snapshots. Belongs to the thread of the lane.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/algorithm/facts.h"
#include "common/protocol/rounds/clock_lane.h"
#include "common/protocol/rounds/round_lane.h"
#include "server/central/central_rounds.h"
#include "server/lane_checkpoints.h"
#include "server/rules/clock_rule.h"
#include "server/snapshot.h"

namespace tern::server {

class CentralLane {
 public:
  // `options` of a RoundLane where the algorithm has rounds; its workers, incarnation and
  // safeguards count for a ClockLane, too. `initial`: the weights of the whole model. `rate` may be
  // asked once the lane is open. `setup` and `checkpoints` outlive it.
  static Result<std::unique_ptr<CentralLane>> Make(const setup::Setup& setup, uint32_t shard,
                                                   uint32_t lane,
                                                   const protocol::RoundLane::Options& options,
                                                   std::span<const float> initial, const Rate& rate,
                                                   LaneCheckpoints* checkpoints = nullptr);

  protocol::Lane& lane() { return *lane_; }
  // Null where the algorithm has rounds.
  protocol::ClockLane* clock_lane() { return clock_lane_; }

  // The membership of `run` has begun. Deletes snapshots of earlier runs. If there are snapshots of
  // this run, this server has restarted: without rounds it resumes from the newest; with rounds it
  // is told where to resume by RollBackTo. Returns a sentence for the log, or an empty one.
  std::string BeginRun(uint64_t run);
  // Which beginning of the run (roll_back.h, resume.h) this is; 0: none yet. Snapshots of a lane
  // without rounds have it: one of an earlier beginning is of another past.
  uint64_t beginning() const { return beginning_; }
  void SetBeginning(uint64_t beginning) { beginning_ = beginning; }
  // After messages: writes a snapshot and a checkpoint where they are due (without rounds; with
  // rounds cells do it).
  void AfterMessages();
  // The process ends: writes the newest state as a checkpoint, where the job has some.
  void Finish();

  // Puts the cells back to the snapshot of `step` (with rounds only), or to the initial weights
  // (0); the protocol machine goes back as well, and knows no members then. kBadData: there is no
  // such snapshot; nothing has changed.
  Status RollBackTo(uint64_t step);
  // The same, to a checkpoint. kBadData: it is not whole; without rounds the lane is as new then.
  Status ResumeFrom(const pb::Checkpoint& from);
  // The newest round that all cells have closed; without rounds the global steps that they have
  // taken.
  uint64_t step() const;
  SnapshotOwner owner() const { return snapshots_.owner(); }
  // Until the newest snapshot is on disk.
  void Flush() { snapshots_.Flush(); }

 private:
  CentralLane(const setup::Setup& setup, uint32_t shard, uint32_t lane,
              const protocol::RoundLane::Options& options, const Rate& rate,
              LaneCheckpoints* checkpoints);
  void AddState(const protocol::Cell& cell, const LaneCheckpoints::State& state);
  Status AddRounds(std::span<const float> initial);
  void MakeRoundLane();
  // The cells of a lane without rounds, with the initial weights.
  Result<std::vector<protocol::ClockCellSpec>> MakeClockCells(std::span<const float> initial);
  void MakeClockLane(std::vector<protocol::ClockCellSpec> cells);
  void RestoreClocks();
  Status LoadSnapshot(uint64_t step);
  bool HasMoved() const;  // since it was made
  // Of each worker, on average, that so many pushes of all stand for.
  uint64_t StepsOf(uint64_t pushes) const;
  Status StartAfresh();
  void AddClocks(const protocol::Cell& cell, SavedState* state);

  const setup::Setup& setup_;
  const algorithm::Facts facts_;
  const uint32_t shard_, lane_number_;
  const protocol::RoundLane::Options options_;
  const Rate rate_;
  std::vector<const protocol::Chunk*> chunks_;          // of this lane
  std::vector<std::unique_ptr<CentralRounds>> rounds_;  // with rounds
  std::map<protocol::Cell, protocol::CellClocks>
      clocks_;  // without: on their way from and to files
  LaneSnapshots snapshots_;
  LaneCheckpoints* const checkpoints_;  // null where the job has none
  uint64_t run_ = 0, beginning_ = 0;
  std::unique_ptr<protocol::Lane> lane_;
  protocol::ClockLane* clock_lane_ = nullptr;  // what lane_ is
  protocol::RoundLane* round_lane_ = nullptr;
};

// Snapshots that all lanes of `shard` have, rising.
std::vector<uint64_t> SnapshotsOfShard(const setup::Setup& setup, uint32_t shard, uint64_t run);

}  // namespace tern::server
