// The checkpoints of a client (train.compute: client) whose program takes tasks: files with what
// Tern keeps of the worker, and beside it the program's own state, for which the program is asked
// between two steps. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/exchange/progress.h"
#include "client/guest/tasks.h"
#include "client/train/checkpoints.h"
#include "common/base/bytes.h"
#include "setup/setup.h"

namespace tern::client {

class ProgramCheckpoints : public Checkpoints {
 public:
  // Gets the program's state of a checkpoint that was read.
  using OnState = std::function<void(const Bytes& state)>;
  // The arguments outlive this object.
  ProgramCheckpoints(const setup::Setup& setup, uint32_t rank, Tasks& tasks, Progress& progress,
                     OnState on_state)
      : disk_(setup, rank, setup.job.output_dir()),
        tasks_(tasks),
        progress_(progress),
        on_state_(std::move(on_state)) {}

  protocol::SavedCheckpoints FindSavedCheckpoints() const { return disk_.FindSavedCheckpoints(); }

  std::string folder() const override { return disk_.folder(); }
  uint64_t every_steps() const override { return disk_.every_steps(); }
  std::vector<pb::Checkpoint> Offers() const override { return disk_.Offers(); }
  std::optional<pb::Checkpoint> NewestOfRun(uint64_t run) const override {
    return disk_.NewestOfRun(run);
  }
  Status Begin(uint64_t run, uint64_t step, bool has_past) override {
    return disk_.Begin(run, step, has_past);
  }
  // Waits for the program. kPeerLost if it leaves.
  Status Write(uint64_t step, uint64_t round, std::vector<tensors::TensorView> tensors,
               const SavedState& extra, uint64_t weights_hash) override;
  Result<tensors::TensorFile> Read(const pb::Checkpoint& checkpoint) const override;

 private:
  DiskCheckpoints disk_;
  Tasks& tasks_;
  Progress& progress_;
  const OnState on_state_;
};

}  // namespace tern::client
