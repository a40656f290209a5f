// What Tern keeps of a client (train.compute: client), such as codecs' memories, as bytes that the
// program puts into its own checkpoint: the program saves it, and gives it back when all programs
// start again. To the trainer it is a checkpoint in memory. Threads: the compute thread, but for
// Save and End.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/exchange/port.h"
#include "client/train/checkpoints.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

class ClientState : public Checkpoints {
 public:
  // `saved`: what Save has returned in an earlier start of the job; empty: nothing. kBadData if it
  // is damaged; kMismatch if it is of another job, table of tensors or rank. `setup` and `wake`
  // outlive the result. `weights_digest`: of the weights with which the program goes on from it;
  // 0: not known.
  static Result<std::unique_ptr<ClientState>> Make(const setup::Setup& setup, uint32_t rank,
                                                   std::string_view saved, uint64_t weights_digest,
                                                   Events& wake);

  // The state after the newest step. Returns null if the trainer has not made it within `patience`;
  // it then does so later, for another call. Any thread.
  Result<std::optional<Bytes>> Save(Time patience);
  // Ends all waiting. Any thread.
  void End(const Status& status);

  std::string folder() const override { return ""; }
  uint64_t every_steps() const override { return 0; }
  // What was given, until the job begins: a program cannot go back to it later.
  std::vector<pb::Checkpoint> Offers() const override;
  std::optional<pb::Checkpoint> NewestOfRun(uint64_t) const override { return std::nullopt; }
  Status Begin(uint64_t run, uint64_t step, bool has_past) override;
  Status Write(uint64_t step, uint64_t round, std::vector<tensors::TensorView> tensors,
               const SavedState& extra, uint64_t weights_hash) override;
  Result<tensors::TensorFile> Read(const pb::Checkpoint& checkpoint) const override;

 private:
  ClientState(const setup::Setup& setup, uint32_t rank, Events& wake);
  // What a state belongs to.
  tensors::Metadata OwnerOfState() const;

  const setup::Setup& setup_;
  const uint32_t rank_;
  Events& wake_;
  std::optional<tensors::TensorFile> given_;
  pb::Checkpoint given_point_;
  uint64_t run_ = 0;
  bool has_begun_ = false;
  Mutex mutex_;
  Condition changed_;
  bool is_wanted_ TERN_GUARDED_BY(mutex_) = false;
  std::optional<Bytes> made_ TERN_GUARDED_BY(mutex_);
  std::optional<Status> end_status_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::client
