// A worker's checkpoints. A worker writes one every checkpoints.every_steps steps, and resumes from
// one. If workers synchronize only every p steps, a checkpoint that is due waits for the next
// synchronization.
//
// The compute thread writes a checkpoint and waits for the disk. A worker writes the checkpoint of
// a round after it has got the sum of all workers' pushes of that round, and each worker pushed
// after writing its previous checkpoint. So one of the two newest checkpoints is on the disks of
// all workers, or one of the checkpoints kept if rounds may close without a slow worker
// (setup::NumCheckpointsToKeep). This holds in jobs with rounds. Without rounds, a worker restores
// only its private state from its checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/base/storage.h"
#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "proto/wire.pb.h"
#include "setup/setup.h"

namespace tern::client {

class Checkpoints {
 public:
  virtual ~Checkpoints() = default;
  // The folder; empty if they are in memory.
  virtual std::string folder() const = 0;
  // The interval in steps. 0: the job writes no checkpoints of its own accord.
  virtual uint64_t every_steps() const = 0;
  // The checkpoints from which this worker can resume. Before Begin, none if checkpoints.resume is
  // false.
  virtual std::vector<pb::Checkpoint> Offers() const = 0;
  // The newest checkpoint of `run` (the number of one execution of the job), even if
  // checkpoints.resume is false.
  virtual std::optional<pb::Checkpoint> NewestOfRun(uint64_t run) const = 0;
  // Call when training of `run` begins after `step`. Removes later checkpoints of that run, and
  // moves the checkpoints of other runs to another folder (Store::Begin, whose error it returns).
  // Moves those of `run` as well if they are not of the job's past (`has_past` is false): the job
  // went on without this rank after they were written.
  virtual Status Begin(uint64_t run, uint64_t step, bool has_past) = 0;
  // Writes a checkpoint with `tensors` (ReplicaState::ViewTensors) and `extra`. If that fails, logs
  // and returns the error; the older checkpoints are kept. `weights_hash`: Replica::Hash() of W, if
  // all workers have the same; else 0.
  virtual Status Write(uint64_t step, uint64_t round, std::vector<tensors::TensorView> tensors,
                       const SavedState& extra, uint64_t weights_hash) = 0;
  virtual Result<tensors::TensorFile> Read(const pb::Checkpoint& checkpoint) const = 0;
};

class DiskCheckpoints : public Checkpoints {
 public:
  // Reads and checks the checkpoints in `output_dir`; logs which are not used, and why. `setup`
  // and `storage` outlive this object.
  DiskCheckpoints(const setup::Setup& setup, uint32_t rank, const std::string& output_dir);
  // The same for a given owner and storage.
  DiskCheckpoints(const setup::Setup& setup, checkpoint::Owner owner, Storage& storage);

  // Returns the checkpoints of Offers() and what is known of unusable ones in the folder. If
  // checkpoints.resume is false: only such from which a run under way may continue
  // (SavedCheckpoints::shard_checkpoints). Call before Begin.
  protocol::SavedCheckpoints FindSavedCheckpoints() const;

  std::string folder() const override { return store_.folder(); }
  uint64_t every_steps() const override { return setup_.job.checkpoints().every_steps(); }
  std::vector<pb::Checkpoint> Offers() const override;
  std::optional<pb::Checkpoint> NewestOfRun(uint64_t run) const override;
  Status Begin(uint64_t run, uint64_t step, bool has_past) override;
  Status Write(uint64_t step, uint64_t round, std::vector<tensors::TensorView> tensors,
               const SavedState& extra, uint64_t weights_hash) override;
  Result<tensors::TensorFile> Read(const pb::Checkpoint& checkpoint) const override;

 private:
  const setup::Setup& setup_;
  checkpoint::Store store_;
  uint64_t run_ = 0;
  bool has_begun_ = false;
};

}  // namespace tern::client
