#include "client/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "client/train/pull.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"

namespace tern::client {
namespace {

struct EndOfSteps {
  Compute& compute;
  ~EndOfSteps() { compute.End(); }
};

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Make(const Parts& parts) {
  auto schedule = update::Schedule::Make(parts.setup.job.train(), parts.steps);
  if (!schedule.ok()) return schedule.status();
  std::unique_ptr<Trainer> trainer(new Trainer(parts, *schedule));
  TERN_RETURN_IF_ERROR(trainer->MakeAlgorithm());
  return trainer;
}

Trainer::Trainer(const Parts& parts, update::Schedule schedule)
    : p_(parts),
      schedule_(std::move(schedule)),
      gradient_(p_.setup, p_.compute, p_.replica, p_.progress),
      state_(p_.setup, p_.replica),
      sums_(p_.setup),
      figures_(p_.setup, p_.rank, p_.compute, p_.replica, gradient_),
      context_{p_.setup,
               p_.rank,
               p_.steps,
               p_.compute.steps_per_epoch(),
               schedule_,
               p_.replica,
               state_,
               gradient_,
               p_.coder,
               sums_,
               p_.port,
               p_.progress,
               [this](const std::function<bool()>& done) { return WaitUntil(done); }},
      has_rounds_(p_.setup.plan.rounds),
      last_step_(has_rounds_ ? parts.steps : std::numeric_limits<uint64_t>::max()),
      scalers_(sums_.SaveScalers(0)) {
  p_.coder.TakeScalersFrom(
      [this](uint64_t round, uint32_t bucket) { return sums_.ScalersFromBefore(round, bucket); });
  for (size_t i = 0; i < scalers_.size(); ++i) state_.Also({Cat("scalers.", i), scalers_[i]});
}

Status Trainer::MakeAlgorithm() {
  auto algorithm = client::MakeAlgorithm(p_.setup.job.train().algorithm(), context_);
  if (!algorithm.ok()) return algorithm.status();
  algorithm_ = std::move(*algorithm);
  return Ok();
}

Status Trainer::Run() {
  while (true) {
    const Status status = Train();
    if (anew_.has_value()) continue;
    p_.progress.waiting = true;
    // The net thread needs to hear it even when the job ended on its own: it is waiting for nothing
    // else.
    p_.port.Finish(status, figures_.newest(), has_rounds_ ? steps_done_ : 0);
    if (!status.ok() || !ServeUntilJobEnds()) return status;
  }
}

Status Trainer::Train() {
  if (anew_.has_value()) TERN_RETURN_IF_ERROR(Restart());
  TERN_RETURN_IF_ERROR(WaitUntil([this] { return ready_.has_value(); }));
  TERN_RETURN_IF_ERROR(RestoreLocalCheckpoint());
  TERN_RETURN_IF_ERROR(algorithm_->Begin(*ready_));
  TERN_RETURN_IF_ERROR(RestorePrivateState());
  StopAfter(stop_after_);
  TERN_RETURN_IF_ERROR(TrainSteps());
  TERN_RETURN_IF_ERROR(EndTogether());
  if (!figures_.IsLowest()) return end_checkpoint_;
  // Where one of these cannot be written the others are, all the same.
  const Status confusion = figures_.WriteConfusion();
  TERN_RETURN_IF_ERROR(state_.WriteWeights(p_.setup.job.output_dir(), steps_done_));
  TERN_RETURN_IF_ERROR(confusion);
  return end_checkpoint_;
}

Status Trainer::Restart() {
  const Beginning from = *std::exchange(anew_, std::nullopt);
  p_.progress.job_step = p_.progress.from_step = 0;
  const auto* resume = std::get_if<ResumeWanted>(&from);
  p_.coder.Forget();
  LOG_IF(WARNING, p_.coder.keeps() && (resume == nullptr || !has_rounds_))
      << "what the codecs kept of earlier gradients starts afresh";
  sums_.Clear();
  TERN_RETURN_IF_ERROR(MakeAlgorithm());
  stop_after_ = 0;
  last_step_ = p_.steps;
  compared_at_ = 0;
  end_checkpoint_ = Ok();
  resumed_.reset();
  if (resume != nullptr) return LoadCheckpoint(resume->checkpoint);
  if (const auto* state = std::get_if<StateArrived>(&from)) {
    TERN_RETURN_IF_ERROR(state_.Load(state->state));
    sums_.RestoreScalers(state->applied, scalers_);
    LOG(WARNING) << "took over the state after round " << state->applied << " from another worker";
    p_.port.Installed(state->applied);
    return Ok();
  }
  const uint64_t applied = std::get<WentBack>(from).applied;
  p_.replica.ResetOptimizer();
  TERN_RETURN_IF_ERROR(Pull(context_, p_.replica.parameters(), false));
  if (!p_.replica.average().empty())
    TERN_RETURN_IF_ERROR(Pull(context_, p_.replica.average().data(), true));
  TERN_RETURN_IF_ERROR(p_.replica.CopyFromHost());
  LOG(WARNING)
      << "went back to round " << applied
      << ": the parameters are the servers'; what this worker had of its own (local steps, "
         "local updaters, momentum of its own) starts afresh";
  if (applied != 0) p_.progress.from_step = algorithm_->StepOfRound(applied);
  p_.port.Installed(applied);
  return Ok();
}

Status Trainer::TrainSteps() {
  steps_done_ = checkpointed_at_ = algorithm_->first_step() - 1;
  p_.progress.job_step = steps_done_;
  if (p_.checkpoints != nullptr) {
    TERN_RETURN_IF_ERROR(p_.checkpoints->Begin(run_, steps_done_));
    p_.port.Offer(p_.checkpoints->Offers());
  }
  p_.compute.Begin(steps_done_);
  const EndOfSteps at_the_end{p_.compute};
  LOG(INFO) << "training from step " << steps_done_ + 1 << " to "
            << (has_rounds_ ? last_step_ : p_.steps);
  while (true) {
    TERN_RETURN_IF_ERROR(WriteCheckpointIfDue());
    ShowProgress();
    if (steps_done_ >= last_step_) return Ok();
    const bool moves = algorithm_->pushed() > compared_at_;
    if (has_rounds_ && moves && figures_.Due(steps_done_)) {
      TERN_RETURN_IF_ERROR(Drain());
      TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kCompare, false));
      if (figures_.EvaluationIsDue(steps_done_))
        TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kEvaluate, false));
    }
    TERN_RETURN_IF_ERROR(HandleArrivedEvents());
    if (leave_.has_value()) return *leave_;
    TimeScope time(p_.progress.train);
    TERN_RETURN_IF_ERROR(gradient_.Fetch());
    TERN_RETURN_IF_ERROR(algorithm_->Step(steps_done_ + 1));
    p_.progress.job_step = ++steps_done_;
    p_.progress.rounds.Add();
    p_.progress.learning_rate.Set(schedule_.Rate(steps_done_ - 1));
    p_.progress.Move();
  }
}

void Trainer::ShowProgress() {
  if (p_.observer != nullptr) p_.observer->At(steps_done_);
}

Status Trainer::Drain() {
  TimeScope time(p_.progress.train);
  return algorithm_->Drain();
}

Status Trainer::EndTogether() {
  // With rounds these are of the last W; without, they come when all have pushed their last.
  TERN_RETURN_IF_ERROR(has_rounds_ ? Drain() : algorithm_->Leave());
  TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kCompare, false));
  if (!has_rounds_) TERN_RETURN_IF_ERROR(algorithm_->Drain());
  TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kEvaluate, true));
  return LossIsFinite();
}

// The gradients of the last step were finite: what they made of the weights need not be.
Status Trainer::LossIsFinite() const {
  const bool trains = p_.setup.job.train().compute() != pb::Train::wait;
  if (!trains || std::isfinite(figures_.newest().test_loss())) return Ok();
  return Status(Code::kDiverged, Cat("the loss on the test set is not finite after step ",
                                     steps_done_, "; lower the learning rate"));
}

bool Trainer::ServeUntilJobEnds() {
  while (std::optional<Event> event = p_.events.Pop()) {
    if (std::holds_alternative<Ended>(*event)) return false;
    if (std::holds_alternative<SnapshotWanted>(*event) && !GiveState().ok()) return false;
    if (std::holds_alternative<WentBack>(*event))
      return !RestartFrom(std::get<WentBack>(*event)).ok();
    if (std::holds_alternative<ResumeWanted>(*event))
      return !RestartFrom(std::get<ResumeWanted>(*event)).ok();
  }
  return false;
}

void Trainer::CopyScalers() {
  const auto scalers = sums_.SaveScalers(algorithm_->applied());
  for (size_t i = 0; i < scalers.size(); ++i)
    std::copy(scalers[i].begin(), scalers[i].end(), scalers_[i].begin());
}

Status Trainer::GiveState() {
  TERN_RETURN_IF_ERROR(p_.replica.CopyToHost());
  CopyScalers();
  p_.port.Snapshot(algorithm_->SaveState(), algorithm_->applied());
  return Ok();
}

Status Trainer::WaitUntil(const std::function<bool()>& done) {
  if (done()) return Ok();
  TimeScope wait(p_.progress.wait);
  p_.progress.waiting = true;
  while (!done()) {
    std::optional<Event> event = p_.events.Pop();
    if (!event.has_value()) return Status(Code::kInternal, "the net thread is gone");
    TERN_RETURN_IF_ERROR(Handle(std::move(*event)));
  }
  p_.progress.waiting = false;
  return Ok();
}

Status Trainer::RestartFrom(Beginning from) {
  anew_ = std::move(from);
  ready_.reset();
  return Status(Code::kPeerLost, "this worker begins anew");  // as far as Run
}

Status Trainer::HandleArrivedEvents() {
  while (std::optional<Event> event = p_.events.TryPop())
    TERN_RETURN_IF_ERROR(Handle(std::move(*event)));
  return Ok();
}

Status Trainer::Handle(Event event) {
  if (const auto* answer = std::get_if<Answer>(&event)) return OnAnswer(*answer);
  if (const auto* ready = std::get_if<Ready>(&event)) {
    ready_ = ready->applied;
    stop_after_ = ready->stop_after;
    run_ = ready->run;
  } else if (std::holds_alternative<SnapshotWanted>(event)) {
    // Between two rounds: while this thread waits, the parameters stand at W(applied).
    return GiveState();
  } else if (auto* state = std::get_if<StateArrived>(&event)) {
    return RestartFrom(std::move(*state));
  } else if (const auto* back = std::get_if<WentBack>(&event)) {
    return RestartFrom(*back);
  } else if (const auto* resume = std::get_if<ResumeWanted>(&event)) {
    return RestartFrom(*resume);
  } else if (const auto* leave = std::get_if<LeaveWanted>(&event)) {
    leave_ = leave->status;
    if (!ready_.has_value()) return *leave_;
  } else {
    return std::get<Ended>(event).status;
  }
  return Ok();
}

Status Trainer::OnAnswer(const Answer& answer) {
  if (answer.cell.kind == protocol::Kind::kFigures) {
    figures_answered_ = true;
    TERN_RETURN_IF_ERROR(figures_.OnAnswer(answer, steps_done_));
    if (p_.observer != nullptr && figures_.IsLowest() && answer.cell.chunk == protocol::kEvaluate)
      p_.observer->Evaluated(steps_done_, figures_.newest());
    return Ok();
  }
  sums_.Put(answer);
  if (answer.cell.kind == protocol::Kind::kPush) StopAfter(protocol::StopAfter(answer.outcome));
  return Ok();
}

void Trainer::StopAfter(uint64_t round) {
  if (round == 0) return;
  // Without rounds it is this worker's own clock: the step in progress is the last.
  const uint64_t step = has_rounds_ ? algorithm_->StepOfRound(round) : steps_done_ + 1;
  if (step >= last_step_) return;
  last_step_ = step;
  if (step < p_.steps) LOG(INFO) << "the job ends for this worker after step " << last_step_;
}

Status Trainer::ExchangeFigures(uint32_t which, bool last) {
  compared_at_ = algorithm_->applied();
  figures_answered_ = false;
  const uint64_t round = has_rounds_ ? algorithm_->applied() + 1 : 1;
  const Result<pb::Figures> mine =
      which == protocol::kCompare ? figures_.Compared() : figures_.Evaluated(last);
  if (!mine.ok()) return mine.status();
  p_.port.Contribute({protocol::Kind::kFigures, 0, which},
                     protocol::InRound{round, Bytes::Own(mine->SerializeAsString())});
  return WaitUntil([this] { return figures_answered_; });
}

}  // namespace tern::client
