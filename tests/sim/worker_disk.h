// The disk of a worker rank with its checkpoints. The disk outlives the rank's processes. Used only
// in jobs whose workers write checkpoints.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/train/checkpoints.h"
#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "setup/setup.h"
#include "tests/common/base/memory_storage.h"
#include "tests/sim/schedule.h"

namespace tern::sim {

class WorkerDisk {
 public:
  // Opens the disk for a process of the job. `job` and this disk must outlive the result.
  client::DiskCheckpoints OpenFor(const setup::Setup& job, const checkpoint::Owner& owner) {
    return client::DiskCheckpoints(job, owner, storage_);
  }
  // Must be called after each change of the files by a process. The arguments say what the disk has
  // now.
  void SetSaved(uint64_t run, std::vector<pb::Checkpoint> checkpoints) {
    saved_ = {std::move(checkpoints), {}, run};
  }
  // Must be called when a process begins a run.
  void ResetStruck() { was_struck_ = false; }
  // Must be called when `fault` has killed all workers. Does to the disk what the fault says, if
  // `is_target`. In addition, the machine may lose power. Returns an error if a file is lost that
  // should have survived; else an empty string.
  std::string Strike(const Fault& fault, bool is_target, const setup::Setup& job,
                     const checkpoint::Owner& owner, const Chooser& chooser);
  // What the disk had at the last call of SetSaved or Strike.
  const protocol::SavedCheckpoints& saved() const { return saved_; }
  // Whether a fault damaged or removed a checkpoint or the record of the run since ResetStruck.
  bool was_struck() const { return was_struck_; }
  // A worker that got its state from another worker may lack a checkpoint that the others have.
  // Until this worker has written `gap` more checkpoints, there may be no checkpoint that all
  // workers have.
  int gap = 0;

 private:
  MemoryStorage storage_;
  protocol::SavedCheckpoints saved_;
  bool was_struck_ = false;
};

}  // namespace tern::sim
