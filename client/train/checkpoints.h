// A worker's checkpoints: what it writes every checkpoints.every_steps, and goes on from.
//
// Written by the compute thread, which waits for the disk: so who has one of a round knows that all
// others, whose pushes that round had, have the one before, and of the two newest one is common to
// all (with rounds; without, a worker's is for itself). Where workers meet every p steps only, it
// is written at the first meeting from then on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/train/replica_state.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/checkpoint/store.h"
#include "common/protocol/members/recovery.h"
#include "proto/wire.pb.h"
#include "setup/setup.h"

namespace tern::client {

class Checkpoints {
 public:
  // Reads and checks all that are there, in `output_dir`; the log says what is not used, and why.
  // `setup` outlives it.
  Checkpoints(const setup::Setup& setup, uint32_t rank, const std::string& output_dir);

  // 0: the job writes none.
  uint64_t every() const { return setup_.job.checkpoints().every_steps(); }
  // What this worker can go on from: nothing where the job does not want it.
  std::vector<pb::Checkpoint> Offers() const;
  // The same, and what is there beside it; before Begin.
  protocol::Saved Saved() const;
  // The newest that is here of that run; nothing where the job does not want it.
  std::optional<pb::Checkpoint> NewestOf(uint64_t run) const;
  // Training begins after `step`, of that run: what came after it is removed, and what is of
  // another run is put aside (Store::Begin). kBadData: it cannot be.
  Status Begin(uint64_t run, uint64_t step);
  // Everything of the replica, and `also`. A failure is logged: those before are still there.
  Status Write(uint64_t step, uint64_t round, ReplicaState& state, const SavedState& also);
  Result<tensors::TensorFile> Read(const pb::Checkpoint& checkpoint) const;

 private:
  const setup::Setup& setup_;
  checkpoint::Store store_;
  uint64_t run_ = 0;
  bool begun_ = false;
};

}  // namespace tern::client
