// One data lane (a socket and its thread) of a server shard that holds the parameters. It has one
// cell per chunk of the model that it serves, the protocol's state machine that changes the cells
// (RoundLane, or ClockLane for an algorithm without rounds), and the cells' checkpoints. Only the
// lane's thread uses it. In an algorithm without rounds, a clock is a worker's own count of its
// pushes.
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
  // `options`: of the RoundLane; for an algorithm without rounds only its workers, incarnation and
  // safeguards are used. `initial`: the weights of the whole model. Make does not call `rate`.
  // `setup` and `checkpoints` must outlive the result. Errors as in CentralChunk::Make.
  static Result<std::unique_ptr<CentralLane>> Make(const setup::Setup& setup, uint32_t shard,
                                                   uint32_t lane,
                                                   const protocol::RoundLane::Options& options,
                                                   std::span<const float> initial, const Rate& rate,
                                                   LaneCheckpoints& checkpoints);

  protocol::Lane& lane() { return *lane_; }
  const protocol::Lane& lane() const { return *lane_; }
  // Null if the algorithm has rounds.
  protocol::ClockLane* clock_lane() { return clock_lane_; }
  const protocol::ClockLane* clock_lane() const { return clock_lane_; }

  // Call when the job's membership arrives; `run` identifies the execution of the job. If there are
  // checkpoints of this run on disk, this server was restarted. Then a lane without rounds
  // continues from the newest of them; a lane with rounds waits for GoBack, which names the
  // checkpoint. Errors as in LaneCheckpoints::Begin.
  Status BeginRun(uint64_t run);
  // Without rounds: call after a message in which a worker hands back what an earlier process of
  // this lane had answered. Errors as in LaneCheckpoints::CheckNoneIsMissing: the lane has initial
  // weights, and must not go on with them.
  Status OnHeldOutcome();
  // A number that identifies the start of the run, or the latest return of all daemons to a
  // checkpoint (Members.beginning in wire.proto); 0: none yet. A lane without rounds saves the
  // number in its checkpoints, because it must not continue from a checkpoint with an older number.
  uint64_t beginning() const { return beginning_; }
  void SetBeginning(uint64_t beginning) { beginning_ = beginning; }
  // Call after a batch of messages. Without rounds, writes a checkpoint if one is due. (With
  // rounds, checkpoints are written when rounds close.)
  void AfterMessages();
  // Call when the process ends: writes the newest state as a checkpoint, if the job writes
  // checkpoints. `last_step`: the step of that checkpoint, which shard 0 has named; 0: none, and
  // nothing is written. kCannotWrite if that fails.
  Status Finish(uint64_t last_step);

  // Returns the cells to the checkpoint `target`, or to the initial weights if `target` is nullopt.
  // The state machine returns to that time too, and then has no members. kBadData: the checkpoint
  // is damaged; a lane with rounds has not changed, a lane without rounds has its initial state.
  Status GoBack(const std::optional<pb::Checkpoint>& target);
  // The current weights of a cell. `version`: how often the weights have changed; with rounds, the
  // newest round that the cell has closed. REQUIRES a cell of this lane.
  struct Weights {
    uint64_t version = 0;
    std::span<const float> values;
  };
  Weights weights(const protocol::Cell& cell) const;
  // The newest round that all cells have closed; without rounds, how many steps each worker has
  // made, on average (ClockLane::position).
  uint64_t step() const;
  // Without rounds: step(), rounded up, so that no checkpoint of this step was written before the
  // newest push. With rounds: 0.
  uint64_t last_step() const;

 private:
  CentralLane(const setup::Setup& setup, uint32_t shard, uint32_t lane,
              const protocol::RoundLane::Options& options, const Rate& rate,
              LaneCheckpoints& checkpoints);
  // Makes the cells of a lane with rounds, with the initial weights of the whole model.
  Status MakeCellsWithRounds(std::span<const float> initial);
  void MakeRoundLane();
  // Makes the cells of a lane without rounds, with the initial weights.
  Result<std::vector<protocol::ClockCellSpec>> MakeClockCells(std::span<const float> initial);
  void MakeClockLane(std::vector<protocol::ClockCellSpec> cells);
  void RestoreClocks();     // copies clocks_by_cell_ to the state machine
  bool HasChanged() const;  // whether any cell has closed a round or counted a push
  // Converts pushes of all workers to a cell into steps per worker, on average.
  uint64_t StepsOf(uint64_t pushes) const;
  Status ResetToInitial();
  // Adds the clocks of one cell (which pushes were counted and answered) and beginning() to what
  // checkpoints save and restore.
  void AddClocksToState(const protocol::Cell& cell, SavedState* state);

  const setup::Setup& setup_;
  const algorithm::Facts facts_;
  const uint32_t shard_, lane_number_;
  const protocol::RoundLane::Options options_;
  const Rate rate_;
  std::vector<const protocol::Chunk*> chunks_;  // the chunks that this lane serves
  // With rounds, the first vector has one element per chunk; without rounds, the second has. The
  // other vector is empty. clock_lane_ owns the rules.
  std::vector<std::unique_ptr<CentralRounds>> rounds_of_chunks_;
  std::vector<const ClockRule*> rules_of_chunks_;
  // Without rounds: copies of the cells' clocks, used while a checkpoint is read or written.
  std::map<protocol::Cell, protocol::CellClocks> clocks_by_cell_;
  LaneCheckpoints& checkpoints_;
  uint64_t run_ = 0, beginning_ = 0;
  // Without rounds: whether the weights are from a checkpoint, or this process wrote one while
  // it had all that workers have of the run. So its disk is there.
  bool has_checkpoint_ = false;
  std::unique_ptr<protocol::Lane> lane_;
  protocol::ClockLane* clock_lane_ = nullptr;  // lane_ if that is a ClockLane; else null
  protocol::RoundLane* round_lane_ = nullptr;  // lane_ if that is a RoundLane; else null
};

}  // namespace tern::server
