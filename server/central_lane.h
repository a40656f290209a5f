// One data lane of a shard that holds central parameters: its cells, the protocol machine that
// changes them, and their checkpoints. Belongs to the thread of the lane.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/algorithm/facts.h"
#include "common/protocol/rounds/clock_lane.h"
#include "common/protocol/rounds/round_lane.h"
#include "server/central/central_rounds.h"
#include "server/lane_checkpoints.h"
#include "server/rules/clock_rule.h"

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
                                                   LaneCheckpoints& checkpoints);

  protocol::Lane& lane() { return *lane_; }
  const protocol::Lane& lane() const { return *lane_; }
  // Null where the algorithm has rounds.
  protocol::ClockLane* clock_lane() { return clock_lane_; }
  const protocol::ClockLane* clock_lane() const { return clock_lane_; }

  // The membership of `run` has begun. If there are checkpoints of this run, this server has
  // restarted: without rounds it goes on from the newest; with rounds it is told by GoBack where to
  // go on. Errors as of LaneCheckpoints::Begin.
  Status BeginRun(uint64_t run);
  // Which beginning of the run (recovery.h) this is; 0: none yet. Checkpoints of a lane without
  // rounds have it: one of an earlier beginning is of another past.
  uint64_t beginning() const { return beginning_; }
  void SetBeginning(uint64_t beginning) { beginning_ = beginning; }
  // After messages: writes a checkpoint where one is due (without rounds; with rounds cells do it).
  void AfterMessages();
  // The process ends: writes the newest state as a checkpoint, where the job has some.
  void Finish();

  // Puts the cells back to that checkpoint, or to the initial weights; the protocol machine goes
  // back as well, and knows no members then. kBadData: it is not whole; with rounds nothing has
  // changed, without rounds the lane is as new.
  Status GoBack(const std::optional<pb::Checkpoint>& to);
  // The weights of a cell as they are now, and how often they have changed; with rounds, the newest
  // round that it has closed. REQUIRES a cell of this lane.
  struct Weights {
    uint64_t version = 0;
    std::span<const float> values;
  };
  Weights weights(const protocol::Cell& cell) const;
  // The newest round that all cells have closed; without rounds the global steps that they have
  // taken.
  uint64_t step() const;

 private:
  CentralLane(const setup::Setup& setup, uint32_t shard, uint32_t lane,
              const protocol::RoundLane::Options& options, const Rate& rate,
              LaneCheckpoints& checkpoints);
  Status AddRounds(std::span<const float> initial);
  void MakeRoundLane();
  // The cells of a lane without rounds, with the initial weights.
  Result<std::vector<protocol::ClockCellSpec>> MakeClockCells(std::span<const float> initial);
  void MakeClockLane(std::vector<protocol::ClockCellSpec> cells);
  void RestoreClocks();
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
  std::vector<const ClockRule*> rules_;                 // without: those of the clock lane
  std::map<protocol::Cell, protocol::CellClocks>
      clocks_;  // without: on their way from and to files
  LaneCheckpoints& checkpoints_;
  uint64_t run_ = 0, beginning_ = 0;
  std::unique_ptr<protocol::Lane> lane_;
  protocol::ClockLane* clock_lane_ = nullptr;  // what lane_ is
  protocol::RoundLane* round_lane_ = nullptr;
};

}  // namespace tern::server
