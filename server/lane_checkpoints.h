// The checkpoints of one data lane: one socket of a server shard, with its thread and its cells
// (the sums or weights of the chunks that it serves). A checkpoint has the state that the lane
// keeps from round to round: weights that servers hold, or the state of codecs. Files are in
// OUTPUT_DIR/checkpoints/shard.SHARD.lane.LANE. There are two kinds:
//
//   kOfAll   written every checkpoints.every_steps, after the same rounds as the workers'
//            checkpoints (client/train/checkpoints.h)
//   kShard   only if servers hold the parameters: written between the others, every
//            checkpoints.shard_every_steps, for a shard that restarts while the run continues
//            (common/protocol/members/recovery.h)
//
// With rounds, the checkpoint after a round is on disk before the lane sends the round's last
// answer. So if a worker has a checkpoint of a step, all lanes have theirs of that step. And
// each lane keeps so many kShard checkpoints that all lanes have one of the same step
// (protocol::MinCheckpointsToKeep).
//
// Without rounds, a checkpoint of step s has the state of all cells when the workers have made s
// steps each, on average. Each lane decides by itself when that is, so the checkpoints of two lanes
// may differ by the pushes that were on their way to the servers. The step of the last checkpoint,
// when the job ends, is the same for all lanes, because shard 0 tells it to all shards
// (common/protocol/members/shard0/ending.h).
//
// Used by the thread of the lane alone, except Saved() and failure().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/algorithm/facts.h"
#include "common/base/mutex.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/base/storage.h"
#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/rounds/message.h"
#include "setup/setup.h"

namespace tern::server {

// With rounds: whether a regular checkpoint of all daemons is due after one of these rounds.
bool IsCheckpointDueWithin(const setup::Setup& setup, uint64_t first_round, uint64_t last_round);

class LaneCheckpoints {
 public:
  // A function that adds a cell's state to a SavedState.
  using StateAdder = std::function<void(SavedState*)>;

  // Reads and verifies the files on disk; logs which of them cannot be used. `setup` and `storage`
  // must outlive this object.
  LaneCheckpoints(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                  Storage& storage = Disk());

  // Adds a cell to the checkpoints, or replaces the function of a cell. REQUIRES that all cells are
  // added before another method is called, and that `add_state` always names the same arrays, of
  // the same sizes.
  void AddCell(const protocol::Cell& cell, StateAdder add_state);
  bool empty() const { return state_adder_by_cell_.empty(); }
  // Call when the job's membership arrives; `run` identifies the execution of the job. Moves the
  // files of other runs to another folder. kCannotWrite if that fails. Without rounds: kBadData,
  // and nothing is moved, if this run was begun here before and all its checkpoints are damaged.
  // failure() then returns the same error.
  Status Begin(uint64_t run);
  // Without rounds: call when LoadNewest has found nothing, and workers have shown that an earlier
  // process of this lane had reached `step`. kBadData if that process must have written a
  // checkpoint before: the disk is missing. Then nothing more is written, and failure() returns the
  // same error.
  Status CheckNoneIsMissing(uint64_t step);
  // Call when the run starts again from the initial state. Moves all files to another folder.
  // Errors as in Begin.
  Status RestartRun();
  // With rounds: call when `cell` has closed `round`. Writes a checkpoint if one is due after this
  // round and all other cells have closed the round.
  void OnRoundClosed(const protocol::Cell& cell, uint64_t round);
  // With rounds: the job's length in steps. If its last round is cut short, the workers' last
  // checkpoint is that of the round before, and so is the lane's.
  void SetSteps(uint64_t steps) { steps_ = steps; }
  // With rounds: a checkpoint of all daemons was asked for, after `round`, which is not over.
  void WantAfter(uint64_t round) { requested_round_ = round; }
  // Without rounds: call when all cells have reached `step`. Writes a checkpoint if one is due, and
  // returns whether one was.
  bool WriteIfDue(uint64_t step);
  // Call when the process ends, if shard 0 has named the step of the last checkpoint. Writes the
  // current state as the checkpoint of `step`, if the job writes checkpoints and has none of that
  // step. With rounds that step is that of the workers' last checkpoint; nothing is written if the
  // state is of another one. Without rounds, removes later checkpoints, which this lane has if
  // others have lost pushes: they are not common to all lanes. kCannotWrite if the write fails, or
  // failed when the round closed.
  Status FinishAt(uint64_t step);
  // Restores the cells from the checkpoint `from`, and removes newer files. If the model was
  // divided otherwise then (Checkpoint.shards), the cells begin without state, and all files are
  // moved.
  // kBadData: the checkpoint is damaged; nothing has changed, and failure() then returns the same
  // error.
  Status Load(const pb::Checkpoint& from);
  // Sets the cells' state to zeros, as which what codecs keep begins. Does nothing on disk.
  void ClearState();
  // Restores the cells from the newest undamaged checkpoint of this run, of either kind. Returns
  // its step; nullopt if there is none.
  std::optional<uint64_t> LoadNewest();

  // The checkpoints from which the lane can continue, and the reason if there are checkpoints that
  // it cannot use. Before Begin(), if the job has checkpoints.resume: false, all of them are in
  // shard_checkpoints, so that only a run under way continues from them, and no new run does. Any
  // thread may call it.
  protocol::SavedCheckpoints Saved() const;
  // How many checkpoints could not be written.
  uint64_t num_failed() const { return num_failed_; }
  // Why the lane cannot take part any more; ok if it can. Any thread may call it.
  Status failure() const;

 private:
  // Copies of the state of some or all cells, from which a checkpoint is written.
  struct Snapshot {
    std::vector<tensors::Tensor> tensors;
    tensors::Metadata metadata;
    size_t num_cells = 0;  // how many cells were copied
  };
  // The kind of checkpoint that is due after this round; nullopt: none.
  std::optional<checkpoint::Kind> KindDueAfter(uint64_t round) const;
  // Adds a copy of the cell's current state to *snapshot.
  void AddCellTo(const protocol::Cell& cell, Snapshot* snapshot) const;
  // Logs and counts an error, and returns it.
  Status Write(const checkpoint::Point& point, checkpoint::Kind kind, const Snapshot& snapshot);
  // Writes the current state of all cells. `round`: 0 without rounds. Errors as in Write.
  Status WriteAll(uint64_t step, uint64_t round, checkpoint::Kind kind);
  Status Fail(Status why);  // sets failure(), and returns it
  // Prepares the folder for `run`. `is_restart`: the run starts again from the initial state.
  Status PrepareFolder(uint64_t run, bool is_restart);
  Status LoadPoint(const checkpoint::Point& point);
  // Updates saved_ from the files on disk and num_failed_.
  void UpdateSaved();

  const setup::Setup& setup_;
  const algorithm::Facts facts_;
  const uint64_t every_steps_, shard_every_steps_;  // intervals in steps; 0: no such checkpoints
  checkpoint::Store store_;
  uint64_t run_ = 0;
  bool was_prepared_ = false;  // whether the folder had been prepared for run_ before Begin()
  std::map<protocol::Cell, StateAdder> state_adder_by_cell_;
  // The newest round that each cell has closed.
  std::map<protocol::Cell, uint64_t> closed_round_by_cell_;
  // The snapshots of rounds that not all cells have closed yet.
  std::map<uint64_t, Snapshot> incomplete_snapshot_by_round_;
  uint64_t requested_round_ = 0;  // the newest after which a checkpoint was asked for; 0: none
  uint64_t steps_ = 0;            // with rounds: the job's length; 0: not known
  uint64_t num_failed_ = 0;       // how many checkpoints could not be written
  // With rounds: the step of the newest checkpoint of all daemons that was begun, and whether it
  // could be written.
  uint64_t begun_step_ = 0;
  Status write_status_;
  uint64_t newest_step_ = 0;  // without rounds: the step of the newest checkpoint
  mutable Mutex mutex_;
  protocol::SavedCheckpoints saved_ TERN_GUARDED_BY(mutex_);
  Status failure_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::server
