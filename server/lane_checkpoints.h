// The checkpoints of what one data lane keeps from round to round (central parameters; what a codec
// keeps of its sums), in OUTPUT_DIR/checkpoints/shard.SHARD.lane.LANE. There are two kinds:
//
//   of all   every checkpoints.every_steps, of the same rounds as the workers'
//            (client/train/checkpoints.h)
//   shard    central parameters only: between those, every checkpoints.shard_every_steps, for a
//            shard that dies and comes back to a run that goes on (recovery.h)
//
// The file is on disk before the last answer of its round leaves, so whatever worker has one, the
// lanes have it too, and of shards' own the oldest that a lane keeps is one that all lanes have.
//
// Without rounds: all cells as they are when the workers have made so many steps each, on average.
// Each lane sees for itself when that is; they differ by pushes that are under way.
//
// Belongs to the thread of the lane, but for Saved() and failure().
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

  // Reads and checks what is there; the log says what is not used. `setup` and `storage` outlive
  // it.
  LaneCheckpoints(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                  Storage& storage = Disk());

  // Before anything else. `state`: REQUIRES the same names and sizes whenever it is asked.
  void AddCell(const protocol::Cell& cell, State state);
  bool empty() const { return cells_.empty(); }
  // The membership of `run` has begun: what is here of another run is put aside (Store::Begin).
  // kCannotWrite: it cannot be; failure() says the same then.
  Status Begin(uint64_t run);
  // The run begins once more, with cells as new: what is here is put aside. Errors as of Begin.
  Status BeginAnew();
  // `cell` has closed `round`, and has the state after it.
  void OnClosed(const protocol::Cell& cell, uint64_t round);
  // Without rounds: all cells have reached `step`. Writes one of them if one is due.
  void WriteIfDue(uint64_t step);
  // The process ends: the state as it is, if it is that after one round. Without rounds: after
  // `step`.
  void Finish();
  void FinishAt(uint64_t step);
  // Puts the cells where they were, and removes what came after. kBadData: it is not whole; nothing
  // has changed.
  Status Load(const pb::Checkpoint& from);
  // The newest of this run that is whole, of either kind; its step. Nothing: there is none.
  std::optional<uint64_t> LoadNewest();

  // What the lane can go on from now, and what is there beside it. Where the job does not want
  // that, what is there before its run begins is for a run under way alone. From any thread.
  protocol::Saved Saved() const;
  // Why the lane cannot take part any more. From any thread.
  Status failure() const;

 private:
  struct Open {
    std::vector<tensors::Tensor> tensors;
    tensors::Metadata metadata;
    size_t cells = 0;
  };
  checkpoint::Keep KeepOf() const;
  // The step that the workers meet after with this round.
  uint64_t StepOf(uint64_t round) const;
  // Which kind is due after this round.
  std::optional<checkpoint::Kind> DueAfter(uint64_t round) const;
  void Copy(const protocol::Cell& cell, Open* to) const;
  void Write(const checkpoint::Point& point, checkpoint::Kind kind, const Open& open);
  void WriteAll(uint64_t step, checkpoint::Kind kind);
  // Of the run, or `anew`.
  Status BeginRun(uint64_t run, bool anew);
  Status LoadPoint(const checkpoint::Point& point);
  void UpdateSaved();

  const setup::Setup& setup_;
  const algorithm::Facts facts_;
  const uint64_t every_, shard_every_;  // in steps; 0: none
  checkpoint::Store store_;
  uint64_t run_ = 0;
  std::map<protocol::Cell, State> cells_;
  std::map<protocol::Cell, uint64_t> closed_;  // the newest round
  std::map<uint64_t, Open> open_;              // by round; of some cells
  uint64_t newest_ = 0;                        // without rounds: the step of the newest one
  mutable Mutex mutex_;
  protocol::Saved saved_ TERN_GUARDED_BY(mutex_);
  Status failure_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::server
