// The checkpoints of one data lane. They have what the lane keeps from round to round: central
// parameters, or what codecs keep between their sums. Files are in
// OUTPUT_DIR/checkpoints/shard.SHARD.lane.LANE. There are two kinds:
//
//   of all   written every checkpoints.every_steps, after the same rounds as the workers'
//            checkpoints (client/train/checkpoints.h)
//   shard    only with central parameters: written between those, every
//            checkpoints.shard_every_steps, for a shard that restarts while the run continues
//            (recovery.h)
//
// With rounds, a file is on disk before the lane sends the last answer of its round. So if a worker
// has the checkpoint of a step, all lanes have it; and the oldest shard checkpoint that a lane
// keeps is one that all lanes have.
//
// Without rounds, a checkpoint of step s has all cells as they are when the workers have made s
// steps each, on average. Each lane decides by itself when that is, so lanes differ by pushes that
// were under way.
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

class LaneCheckpoints {
 public:
  using State = std::function<void(SavedState*)>;

  // Reads and verifies the files on disk; logs which of them it cannot use. `setup` and `storage`
  // outlive it.
  LaneCheckpoints(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                  Storage& storage = Disk());

  // Adds a cell to the checkpoints. REQUIRES that no other method was called before, and that
  // `state` always names the same arrays, of the same sizes.
  void AddCell(const protocol::Cell& cell, State state);
  bool empty() const { return cells_.empty(); }
  // A membership of `run` has come: moves the files of other runs away (Store::Begin). kCannotWrite
  // if that fails; failure() then returns the same.
  Status Begin(uint64_t run);
  // The run starts again from initial state: moves all files away. Errors as in Begin.
  Status RestartRun();
  // `cell` has closed `round` and is in the state after it. Writes a checkpoint if one is due and
  // this was the last cell.
  void OnClosed(const protocol::Cell& cell, uint64_t round);
  // Without rounds: all cells have reached `step`. Writes a checkpoint if one is due.
  void WriteIfDue(uint64_t step);
  // Call when the process ends: writes the current state. Finish(): with rounds; only if all cells
  // are after the same round. FinishAt(): without rounds; as the checkpoint of `step`.
  void Finish();
  void FinishAt(uint64_t step);
  // Restores the cells from that checkpoint, and removes newer files. kBadData: the checkpoint is
  // damaged; nothing has changed.
  Status Load(const pb::Checkpoint& from);
  // Restores the cells from the newest undamaged checkpoint of this run, of either kind. Returns
  // its step; nullopt if there is none.
  std::optional<uint64_t> LoadNewest();

  // The checkpoints from which the lane can continue, and those that it cannot use. With
  // checkpoints.resume false and before Begin(), all of them are shard_checkpoints: only a run
  // under way may continue from them, not a new start. Any thread may call it.
  protocol::Saved Saved() const;
  // Why the lane cannot take part any more; ok if it can. Any thread may call it.
  Status failure() const;

 private:
  // A checkpoint for which not all cells have closed the round.
  struct Open {
    std::vector<tensors::Tensor> tensors;
    tensors::Metadata metadata;
    size_t cells = 0;
  };
  checkpoint::Keep KeepOf() const;
  // The step after which workers exchange in this round.
  uint64_t StepOf(uint64_t round) const;
  // The kind of checkpoint that is due after this round; nullopt: none.
  std::optional<checkpoint::Kind> DueAfter(uint64_t round) const;
  // Copies the cell's current state.
  void Copy(const protocol::Cell& cell, Open* to) const;
  void Write(const checkpoint::Point& point, checkpoint::Kind kind, const Open& open);
  // Writes the current state of all cells.
  void WriteAll(uint64_t step, checkpoint::Kind kind);
  // Begin() or, with `anew`, RestartRun().
  Status BeginRun(uint64_t run, bool anew);
  Status LoadPoint(const checkpoint::Point& point);
  void UpdateSaved();

  const setup::Setup& setup_;
  const algorithm::Facts facts_;
  const uint64_t every_, shard_every_;  // in steps; 0: none
  checkpoint::Store store_;
  uint64_t run_ = 0;
  std::map<protocol::Cell, State> cells_;
  std::map<protocol::Cell, uint64_t> closed_;  // by cell: the newest round that it has closed
  std::map<uint64_t, Open> open_;              // by round
  uint64_t newest_ = 0;                        // without rounds: the step of the newest checkpoint
  mutable Mutex mutex_;
  protocol::Saved saved_ TERN_GUARDED_BY(mutex_);
  Status failure_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::server
