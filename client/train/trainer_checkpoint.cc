// The trainer's checkpoints: when they are written, and how it goes on from one.
#include <algorithm>
#include <bit>

#include "client/train/trainer.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"

namespace tern::client {

namespace {

// Of the loss that was not told yet: a sum of doubles, as its bits.
struct SavedLosses {
  uint64_t sum_bits = 0, samples = 0;

  void AddState(SavedState* state) {
    state->numbers.push_back({"losses.sum_bits", &sum_bits});
    state->numbers.push_back({"losses.samples", &samples});
  }
};

}  // namespace

Status Trainer::WriteCheckpointIfDue() {
  if (p_.checkpoints == nullptr || steps_done_ <= checkpointed_at_) return Ok();
  const uint64_t every = p_.checkpoints->every();
  if (every == 0) return Ok();
  if (steps_done_ / every == checkpointed_at_ / every && steps_done_ < last_step_) return Ok();
  if (has_rounds_) {
    TERN_RETURN_IF_ERROR(algorithm_->Quiesce());
    if (!algorithm_->MeetsAfter(steps_done_)) return Ok();  // at the next meeting
  }
  checkpointed_at_ = steps_done_;
  return WriteCheckpoint();
}

// Where the disk will not have it the job goes on: the checkpoints before are still there. But the
// last one is what the next start relies on.
Status Trainer::WriteCheckpoint() {
  TimeScope time(p_.progress.checkpoint);
  TERN_RETURN_IF_ERROR(p_.replica.CopyToHost());
  TERN_RETURN_IF_ERROR(algorithm_->CopyStateToHost());
  CopyScalers();
  SavedState own;
  algorithm_->AddState(&own);
  SavedLosses losses{std::bit_cast<uint64_t>(gradient_.losses().sum), gradient_.losses().samples};
  losses.AddState(&own);
  Status written;
  const Status kept_here = p_.coder.WithKept([&](const SavedState& kept) {
    own.Append(kept);
    written = p_.checkpoints->Write(steps_done_, algorithm_->applied(), state_, own);
  });
  TERN_RETURN_IF_ERROR(kept_here);
  if (steps_done_ >= last_step_)
    end_checkpoint_ = written.Within(Cat("the checkpoint of step ", steps_done_));
  (written.ok() ? p_.progress.checkpoints : p_.progress.checkpoint_failures).Add();
  p_.port.Offer(p_.checkpoints->Offers());
  p_.progress.Move();
  return Ok();
}

Status Trainer::LoadCheckpoint(const pb::Checkpoint& from) {
  if (p_.checkpoints == nullptr) return Status(Code::kInternal, "this job has no checkpoints");
  p_.progress.from_step = from.step();
  if (!has_rounds_) {
    LOG(WARNING) << "the servers go on from their checkpoint of step " << from.step();
    p_.port.Installed(from.round());
    return Ok();
  }
  Result<tensors::TensorFile> file = p_.checkpoints->Read(from);
  if (!file.ok()) return file.status();
  const std::string name = Cat("the checkpoint of step ", from.step());
  TERN_RETURN_IF_ERROR(state_.LoadViews(*file).Within(name));
  sums_.RestoreScalers(from.round(), scalers_);
  resumed_ = std::move(*file);
  LOG(WARNING) << "goes on from " << name;
  if (from.step() >= p_.steps) {
    LOG(WARNING) << "the job has no more than " << p_.steps
                 << " steps: its weights are evaluated and written again, and that is all";
  }
  p_.port.Installed(from.round());
  return Ok();
}

Status Trainer::RestoreLocalCheckpoint() {
  if (p_.checkpoints == nullptr || has_rounds_ || steps_done_ != 0) return Ok();
  const std::optional<pb::Checkpoint> newest = p_.checkpoints->NewestOf(run_);
  if (!newest.has_value()) return Ok();
  Result<tensors::TensorFile> file = p_.checkpoints->Read(*newest);
  if (!file.ok()) return file.status();
  const std::string name = Cat("this worker's checkpoint of step ", newest->step());
  TERN_RETURN_IF_ERROR(state_.LoadViews(*file).Within(name));
  resumed_ = std::move(*file);
  LOG(WARNING) << "what this worker had of its own is taken up as it was in " << name;
  return Ok();
}

Status Trainer::RestorePrivateState() {
  if (!resumed_.has_value()) return Ok();
  const tensors::TensorFile file = *std::exchange(resumed_, std::nullopt);
  if (has_rounds_ || algorithm_->keeps_point()) TERN_RETURN_IF_ERROR(state_.LoadPoint(file));
  SavedState own;
  algorithm_->AddState(&own);
  SavedLosses losses;
  losses.AddState(&own);
  Status restored;
  const Status kept_there = p_.coder.WithKept([&](const SavedState& kept) {
    // Without rounds servers may have counted what the codecs had left out by then.
    if (has_rounds_) own.Append(kept);
    restored = checkpoint::Restore(file, own);
  });
  TERN_RETURN_IF_ERROR(kept_there);
  gradient_.SetLosses({std::bit_cast<double>(losses.sum_bits), losses.samples});
  TERN_RETURN_IF_ERROR(restored.Within("the checkpoint"));
  return algorithm_->CopyStateFromHost();
}

}  // namespace tern::client
