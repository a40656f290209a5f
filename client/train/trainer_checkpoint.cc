// The trainer's checkpoints: when it writes one or stops, and how it resumes from one.
#include <algorithm>
#include <bit>

#include "client/exchange/coder.h"
#include "client/train/pull.h"
#include "client/train/trainer.h"
#include "common/algorithm/facts.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/base/trace.h"
#include "common/checkpoint/saved.h"
#include "common/protocol/members/recovery.h"
#include "setup/own_state.h"

namespace tern::client {

namespace {

// The training losses since the workers last compared their replicas, for a checkpoint. sum_bits
// has the bits of the sum, a double.
struct SavedLosses {
  uint64_t sum_bits = 0, samples = 0;

  void AddState(SavedState* state) {
    state->numbers.push_back({"losses.sum_bits", &sum_bits});
    state->numbers.push_back({"losses.samples", &samples});
  }
};

// How many exchanges a worker without rounds had made when it wrote a checkpoint.
SavedState SavedExchanges(uint64_t* exchanges) {
  SavedState state;
  state.numbers.push_back({"exchanges", exchanges});
  return state;
}

void WarnOfClearedMemories(const Coder& coder, const std::string& reason = "") {
  LOG_IF(WARNING, coder.has_memories())
      << "the codecs' memories of earlier gradients are cleared" << reason;
}

// Without rounds: whether what the codecs remember in a worker's checkpoint is what they remembered
// after the last exchange that the servers have counted, as after an orderly end. Else pushes after
// the checkpoint may have contained it, so that it must not be pushed again; logs that.
bool MemoriesAreOfExchange(uint64_t counted_exchanges, const tensors::TensorFile& file,
                           const Coder& coder) {
  uint64_t saved_exchanges = 0;
  const bool is_known = checkpoint::RestoreState(file, SavedExchanges(&saved_exchanges)).ok();
  if (is_known && saved_exchanges == counted_exchanges) return true;
  WarnOfClearedMemories(
      coder, Cat(": the servers have counted ", counted_exchanges,
                 " exchanges of this rank, and its checkpoint ",
                 is_known ? Cat("is of exchange ", saved_exchanges) : "does not say its number"));
  return false;
}

// `event`: a Trainer::RestartEvent.
template <typename RestartEvent>
std::optional<pb::Checkpoint> OthersResumeOf(const RestartEvent& event) {
  if (const auto* arrived = std::get_if<StateArrived>(&event)) return arrived->others_resume;
  if (const auto* went_back = std::get_if<WentBack>(&event)) return went_back->others_resume;
  return std::nullopt;
}

std::string OtherSizeText(const pb::Checkpoint& checkpoint, const setup::Setup& setup) {
  return protocol::OtherSizeText(checkpoint, setup.plan.workers,
                                 static_cast<uint32_t>(setup.plan.data_lanes.size()));
}

void LogOtherWorkers(const pb::Checkpoint& checkpoint, const setup::Setup& setup) {
  LOG(WARNING) << "the job goes on with " << OtherSizeText(checkpoint, setup)
               << (setup::WorkersKeepOwnState(setup)
                       ? Cat("; dropped: ", protocol::kWorkersOwnState)
                       : "; nothing is dropped");
}

}  // namespace

Status Trainer::WriteCheckpointIfDue() {
  if (deps_.checkpoints == nullptr || steps_done_ <= checkpoint_step_) return Ok();
  const uint64_t every_steps = deps_.checkpoints->every_steps();
  if (every_steps == 0) return Ok();
  const bool is_regular = steps_done_ / every_steps != checkpoint_step_ / every_steps;
  const bool is_requested = steps_done_ >= requested_step_ && checkpoint_step_ < requested_step_;
  const bool is_last = steps_done_ == algorithm_->LastRoundEnd(last_step_);
  if (!is_regular && !is_requested && !is_last) return Ok();
  if (has_rounds_) {
    TERN_RETURN_IF_ERROR(algorithm_->Quiesce());
    if (!algorithm_->WorkersAgreeAfter(steps_done_))
      return Ok();  // The checkpoint waits for the next synchronization.
  }
  checkpoint_step_ = steps_done_;
  return WriteCheckpoint();
}

void Trainer::StopOrSaveAfter(uint64_t stop_round, uint64_t save_round) {
  if (save_round != 0 && algorithm_->StepOfRound(save_round) > requested_step_) {
    requested_step_ = algorithm_->StepOfRound(save_round);
    LogInfo(Cat("a checkpoint was asked for: it will be that of step ", requested_step_),
            Print::kYes);
  }
  if (stop_round == 0) return;
  // Without rounds, `stop_round` counts this worker's exchanges, and the step in progress is the
  // last.
  const uint64_t step = has_rounds_ ? algorithm_->StepOfRound(stop_round) : steps_done_ + 1;
  if (step >= last_step_) return;
  last_step_ = step;
  if (step < deps_.steps) LOG(INFO) << "the job ends for this worker after step " << last_step_;
}

// If a checkpoint cannot be written, the job goes on, because the older checkpoints still exist.
// Only the last one must be written, because a longer job would resume from it.
Status Trainer::WriteCheckpoint() {
  TimeScope time(deps_.progress.checkpoint_time);
  const TraceSpan span("write checkpoint", {.step = steps_done_});
  save_is_wanted_ = false;
  TERN_RETURN_IF_ERROR(deps_.replica.CopyToHost());
  TERN_RETURN_IF_ERROR(algorithm_->CopyStateToHost());
  CopyScalers();
  SavedState private_state;
  algorithm_->AddState(&private_state);
  SavedLosses losses{std::bit_cast<uint64_t>(gradient_.losses().sum), gradient_.losses().samples};
  losses.AddState(&private_state);
  uint64_t exchanges = algorithm_->last_pushed_round();
  if (!has_rounds_) private_state.Append(SavedExchanges(&exchanges));
  const uint64_t weights_hash = has_rounds_ ? deps_.replica.Hash() : 0;
  Status write_status;
  const Status visit_status = deps_.coder.VisitMemories([&](const SavedState& memories) {
    private_state.Append(memories);
    write_status = deps_.checkpoints->Write(steps_done_, algorithm_->applied(),
                                            state_.ViewTensors(), private_state, weights_hash);
  });
  TERN_RETURN_IF_ERROR(visit_status);
  if (steps_done_ == algorithm_->LastRoundEnd(last_step_))
    end_checkpoint_status_ = write_status.Within(Cat("the checkpoint of step ", steps_done_));
  (write_status.ok() ? deps_.progress.checkpoints : deps_.progress.checkpoint_failures).Add();
  if (write_status.ok()) {
    deps_.progress.checkpoint_step = steps_done_;
    deps_.progress.checkpoint_at = Now();
  }
  deps_.port.OfferCheckpoints(deps_.checkpoints->Offers());
  deps_.progress.CountAdvance();
  return Ok();
}

Status Trainer::Restart() {
  const RestartEvent event = *std::exchange(pending_restart_, std::nullopt);
  deps_.progress.job_step = deps_.progress.from_step = deps_.progress.checkpoint_step = 0;
  gradient_.SetLosses({});
  has_last_evaluation_ = false;
  const auto* resume = std::get_if<ResumeWanted>(&event);
  deps_.coder.DropPushesAndMemories();
  // Without rounds, a new process may have them in its own checkpoint (RestorePrivateState).
  const bool may_restore_memories = resume != nullptr && (has_rounds_ || steps_done_ == 0);
  if (!may_restore_memories) WarnOfClearedMemories(deps_.coder);
  sums_.Clear();
  TERN_RETURN_IF_ERROR(MakeAlgorithm());
  stop_after_ = save_after_ = requested_step_ = 0;
  last_step_ = max_step_;
  compared_round_ = evaluated_round_ = 0;
  end_checkpoint_status_ = Ok();
  loaded_checkpoint_.reset();
  const std::optional<pb::Checkpoint> others_resume = OthersResumeOf(event);
  has_past_ = !others_resume.has_value();
  if (!has_past_) {
    deps_.progress.from_step = others_resume->step();
    const std::string size = OtherSizeText(*others_resume, deps_.setup);
    LOG(WARNING) << "the job goes on from step " << others_resume->step()
                 << (size.empty() ? "" : " with ") << size
                 << ", which this rank does not have: it gets the state of the job from the others";
  }
  if (resume != nullptr) return LoadCheckpoint(resume->checkpoint);
  if (const auto* arrived = std::get_if<StateArrived>(&event)) {
    if (setup::IsClientJob(deps_.setup.job)) {
      deps_.compute.LoadState(arrived->state);
      deps_.port.ReportInstalled(arrived->applied);
      return Ok();
    }
    TERN_RETURN_IF_ERROR(state_.Load(arrived->state));
    sums_.RestoreScalers(arrived->applied, state_scalers_);
    LOG(WARNING) << "installed the state after round " << arrived->applied << " from another worker"
                 << (algorithm::FactsOf(deps_.setup.job).has_own_point
                         ? "; this worker's own state (local weights, local updater) begins anew"
                         : "");
    deps_.port.ReportInstalled(arrived->applied);
    return Ok();
  }
  const uint64_t applied = std::get<WentBack>(event).applied;
  deps_.replica.ResetOptimizer();
  figures_.record().ForgetLastStep();
  TERN_RETURN_IF_ERROR(Pull(context_, deps_.replica.parameters(), false));
  if (!deps_.replica.average().empty())
    TERN_RETURN_IF_ERROR(Pull(context_, deps_.replica.average().data(), true));
  TERN_RETURN_IF_ERROR(deps_.replica.CopyFromHost());
  LOG(WARNING)
      << "went back to round " << applied
      << ": the parameters are the servers'; this worker's own state (local steps, local updater, "
         "momentum) is reset";
  if (applied != 0) deps_.progress.from_step = algorithm_->StepOfRound(applied);
  deps_.port.ReportInstalled(applied);
  return Ok();
}

Status Trainer::LoadCheckpoint(const pb::Checkpoint& checkpoint) {
  if (deps_.checkpoints == nullptr) return Status(Code::kInternal, "this job has no checkpoints");
  deps_.progress.from_step = checkpoint.step();
  if (!has_rounds_) {
    LogInfo(Cat("the servers go on from their checkpoint of step ", checkpoint.step()),
            Print::kYes);
    deps_.port.ReportInstalled(checkpoint.round());
    return Ok();
  }
  Result<tensors::TensorFile> file = deps_.checkpoints->Read(checkpoint);
  if (!file.ok()) return file.status();
  const std::string name = Cat("the checkpoint of step ", checkpoint.step());
  TERN_RETURN_IF_ERROR(state_.LoadCheckpointTensors(*file).Within(name));
  sums_.RestoreScalers(checkpoint.round(), state_scalers_);
  // If servers hold the weights, other workers may go back without a checkpoint of theirs.
  if (deps_.setup.plan.is_central) figures_.record().ForgetLastStep();
  LogInfo("goes on from " + name, Print::kYes);
  if (checkpoint.has_workers()) {
    // This worker goes on as if it had got its own State, which has what all workers have in
    // common. So none has more than the ranks that are new.
    TERN_RETURN_IF_ERROR(algorithm_->Begin(checkpoint.round()));
    const Bytes common_state = algorithm_->SaveState();
    TERN_RETURN_IF_ERROR(MakeAlgorithm());
    TERN_RETURN_IF_ERROR(state_.Load(common_state));
    LogOtherWorkers(checkpoint, deps_.setup);
  } else {
    loaded_checkpoint_ = std::move(*file);
  }
  if (checkpoint.step() >= deps_.steps) {
    LOG(WARNING)
        << "the job has only " << deps_.steps
        << " steps, so there is nothing to train: its weights are evaluated and written again";
  }
  deps_.port.ReportInstalled(checkpoint.round());
  return Ok();
}

Status Trainer::RestoreLocalCheckpoint() {
  if (deps_.checkpoints == nullptr || has_rounds_ || steps_done_ != 0) return Ok();
  const std::optional<pb::Checkpoint> newest_checkpoint = deps_.checkpoints->NewestOfRun(run_);
  if (!newest_checkpoint.has_value()) {
    const bool has_begun = deps_.progress.from_step != 0 || *ready_round_ != 0;
    LOG_IF(WARNING, has_begun && deps_.checkpoints->every_steps() != 0)
        << "there is no checkpoint of this worker and run in " << deps_.checkpoints->folder()
        << ": the worker's own state begins anew";
    if (has_begun) WarnOfClearedMemories(deps_.coder);
    return Ok();
  }
  Result<tensors::TensorFile> file = deps_.checkpoints->Read(*newest_checkpoint);
  if (!file.ok()) return file.status();
  const std::string name = Cat("this worker's checkpoint of step ", newest_checkpoint->step());
  TERN_RETURN_IF_ERROR(state_.LoadCheckpointTensors(*file).Within(name));
  loaded_checkpoint_ = std::move(*file);
  LogInfo("this worker's own state is loaded from " + name, Print::kYes);
  return Ok();
}

Status Trainer::RestorePrivateState() {
  if (!loaded_checkpoint_.has_value()) return Ok();
  const tensors::TensorFile file = *std::exchange(loaded_checkpoint_, std::nullopt);
  if (has_rounds_ || algorithm_->keeps_point()) TERN_RETURN_IF_ERROR(state_.LoadPoint(file));
  SavedState private_state;
  algorithm_->AddState(&private_state);
  SavedLosses losses;
  losses.AddState(&private_state);
  const bool restores_own_memories =
      !has_rounds_ && MemoriesAreOfExchange(algorithm_->last_pushed_round(), file, deps_.coder);
  Status restore_status, memories_status;
  const Status visit_status = deps_.coder.VisitMemories([&](const SavedState& memories) {
    if (has_rounds_) private_state.Append(memories);
    restore_status = checkpoint::RestoreState(file, private_state);
    if (restores_own_memories) memories_status = checkpoint::RestoreState(file, memories);
  });
  TERN_RETURN_IF_ERROR(visit_status);
  if (!memories_status.ok())
    WarnOfClearedMemories(deps_.coder, ": the checkpoint is of other codecs");
  gradient_.SetLosses({std::bit_cast<double>(losses.sum_bits), losses.samples});
  TERN_RETURN_IF_ERROR(restore_status.Within("the checkpoint"));
  return algorithm_->CopyStateFromHost();
}

}  // namespace tern::client
