// The trainer's checkpoints: when it writes one, and how it resumes from one.
#include <algorithm>
#include <bit>

#include "client/train/trainer.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"

namespace tern::client {

namespace {

// The training losses since the last comparison, for a checkpoint. The sum is saved as the bits of
// a double.
struct SavedLosses {
  uint64_t sum_bits = 0, samples = 0;

  void AddState(SavedState* state) {
    state->numbers.push_back({"losses.sum_bits", &sum_bits});
    state->numbers.push_back({"losses.samples", &samples});
  }
};

}  // namespace

Status Trainer::WriteCheckpointIfDue() {
  if (deps_.checkpoints == nullptr || steps_done_ <= checkpointed_at_) return Ok();
  const uint64_t every = deps_.checkpoints->every();
  if (every == 0) return Ok();
  if (steps_done_ / every == checkpointed_at_ / every && steps_done_ < last_step_) return Ok();
  if (has_rounds_) {
    TERN_RETURN_IF_ERROR(algorithm_->Quiesce());
    if (!algorithm_->MeetsAfter(steps_done_)) return Ok();  // wait for the next synchronization
  }
  checkpointed_at_ = steps_done_;
  return WriteCheckpoint();
}

// If a checkpoint cannot be written, the job goes on, because the older checkpoints still exist.
// Only the checkpoint of the last step must be written, because a longer job would resume from that
// step.
Status Trainer::WriteCheckpoint() {
  TimeScope time(deps_.progress.checkpoint);
  TERN_RETURN_IF_ERROR(deps_.replica.CopyToHost());
  TERN_RETURN_IF_ERROR(algorithm_->CopyStateToHost());
  CopyScalers();
  SavedState own;
  algorithm_->AddState(&own);
  SavedLosses losses{std::bit_cast<uint64_t>(gradient_.losses().sum), gradient_.losses().samples};
  losses.AddState(&own);
  Status written;
  const Status with_kept = deps_.coder.VisitMemories([&](const SavedState& kept) {
    own.Append(kept);
    written = deps_.checkpoints->Write(steps_done_, algorithm_->applied(), state_, own);
  });
  TERN_RETURN_IF_ERROR(with_kept);
  if (steps_done_ >= last_step_)
    end_checkpoint_ = written.Within(Cat("the checkpoint of step ", steps_done_));
  (written.ok() ? deps_.progress.checkpoints : deps_.progress.checkpoint_failures).Add();
  deps_.port.Offer(deps_.checkpoints->Offers());
  deps_.progress.Move();
  return Ok();
}

Status Trainer::LoadCheckpoint(const pb::Checkpoint& from) {
  if (deps_.checkpoints == nullptr) return Status(Code::kInternal, "this job has no checkpoints");
  deps_.progress.from_step = from.step();
  if (!has_rounds_) {
    LOG(WARNING) << "the servers go on from their checkpoint of step " << from.step();
    deps_.port.Installed(from.round());
    return Ok();
  }
  Result<tensors::TensorFile> file = deps_.checkpoints->Read(from);
  if (!file.ok()) return file.status();
  const std::string name = Cat("the checkpoint of step ", from.step());
  TERN_RETURN_IF_ERROR(state_.LoadViews(*file).Within(name));
  sums_.RestoreScalers(from.round(), scalers_);
  resumed_ = std::move(*file);
  LOG(WARNING) << "goes on from " << name;
  if (from.step() >= deps_.steps) {
    LOG(WARNING)
        << "the job has only " << deps_.steps
        << " steps, so there is nothing to train: its weights are evaluated and written again";
  }
  deps_.port.Installed(from.round());
  return Ok();
}

Status Trainer::RestoreLocalCheckpoint() {
  if (deps_.checkpoints == nullptr || has_rounds_ || steps_done_ != 0) return Ok();
  const std::optional<pb::Checkpoint> newest = deps_.checkpoints->NewestOf(run_);
  if (!newest.has_value()) return Ok();
  Result<tensors::TensorFile> file = deps_.checkpoints->Read(*newest);
  if (!file.ok()) return file.status();
  const std::string name = Cat("this worker's checkpoint of step ", newest->step());
  TERN_RETURN_IF_ERROR(state_.LoadViews(*file).Within(name));
  resumed_ = std::move(*file);
  LOG(WARNING) << "this worker's own state is loaded from " << name;
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
  const Status with_kept = deps_.coder.VisitMemories([&](const SavedState& kept) {
    // Without rounds, servers may already have counted later pushes, which contain what the codecs'
    // memories held at the checkpoint.
    if (has_rounds_) own.Append(kept);
    restored = checkpoint::Restore(file, own);
  });
  TERN_RETURN_IF_ERROR(with_kept);
  gradient_.SetLosses({std::bit_cast<double>(losses.sum_bits), losses.samples});
  TERN_RETURN_IF_ERROR(restored.Within("the checkpoint"));
  return algorithm_->CopyStateFromHost();
}

}  // namespace tern::client
