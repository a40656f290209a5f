#include "client/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "client/train/results.h"
#include "common/algorithm/facts.h"
#include "common/algorithm/rules.h"
#include "common/base/failpoint.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/base/trace.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"

namespace tern::client {
namespace {

// The number of steps after which the figures that workers exchange are measured. Without rounds
// they have done different numbers, and exchange figures only at the end of the job's `num_steps`.
uint64_t StepOfFigures(bool has_rounds, uint64_t steps_done, uint64_t num_steps) {
  return has_rounds || num_steps >= setup::kUnknownSteps ? steps_done : num_steps;
}

// Stops the recording of steps, and calls Compute::End, when it goes out of scope.
struct EndOfSteps {
  Compute& compute;
  ~EndOfSteps() {
    SetTracing(false);
    compute.End();
  }
};

// Waits for the next event, and counts it as progress. Returns nullopt if the net thread is gone.
std::optional<Event> AwaitEvent(Events& events, Progress& progress) {
  progress.is_waiting = true;
  std::optional<Event> event = events.Pop();
  HitFailpoint(FailPlace::kThreadWait);
  progress.is_waiting = false;
  progress.CountAdvance();
  return event;
}

// kDiverged if the loss of the last evaluation is not finite. The gradients of the last step were
// finite, but the updated weights may not be.
Status CheckLossIsFinite(const pb::Job& job, const pb::Figures& last_evaluation, uint64_t steps) {
  const bool is_computing = job.train().compute() == pb::Train::net;
  if (!is_computing || std::isfinite(last_evaluation.test_loss())) return Ok();
  return Status(Code::kDiverged, Cat("the loss on the test set is not finite after step ", steps,
                                     "; lower the learning rate"));
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Make(const Dependencies& dependencies) {
  auto schedule = update::Schedule::Make(dependencies.setup.job.train(), dependencies.steps);
  if (!schedule.ok()) return schedule.status();
  std::unique_ptr<Trainer> trainer(new Trainer(dependencies, *schedule));
  TERN_RETURN_IF_ERROR(trainer->MakeAlgorithm());
  return trainer;
}

Trainer::Trainer(const Dependencies& dependencies, update::Schedule schedule)
    : deps_(dependencies),
      schedule_(std::move(schedule)),
      gradient_(deps_.setup, deps_.compute, deps_.replica, deps_.progress),
      state_(deps_.setup, deps_.replica),
      sums_(deps_.setup),
      figures_(deps_.setup, deps_.rank, deps_.compute, deps_.replica, gradient_),
      evaluation_files_(deps_.setup.job),
      context_{deps_.setup,
               deps_.rank,
               deps_.steps,
               deps_.compute.steps_per_epoch(),
               schedule_,
               deps_.replica,
               state_,
               gradient_,
               deps_.coder,
               sums_,
               deps_.port,
               deps_.progress,
               [this](const std::function<bool()>& is_done) { return WaitUntil(is_done); }},
      has_rounds_(deps_.setup.plan.has_rounds),
      max_step_(has_rounds_ ? dependencies.steps : std::numeric_limits<uint64_t>::max()),
      last_step_(max_step_),
      state_scalers_(sums_.SaveScalers(0)) {
  deps_.compute.SetAwaitProgram(
      [this](const std::function<bool()>& is_done) { return AwaitProgram(is_done); });
  deps_.coder.SetEarlierScalersFunction([this](uint64_t round, uint32_t bucket) {
    return sums_.ScalersOfEarlierRound(round, bucket);
  });
  for (size_t i = 0; i < state_scalers_.size(); ++i)
    state_.AddArray({Cat("scalers.", i), state_scalers_[i]});
  if (figures_.record().is_used())
    state_.AddOptionalArray({"evaluations", figures_.record().floats()});
}

Status Trainer::MakeAlgorithm() {
  auto algorithm = client::MakeAlgorithm(deps_.setup.job.train().algorithm(), context_);
  if (!algorithm.ok()) return algorithm.status();
  algorithm_ = std::move(*algorithm);
  const std::string warning =
      algorithm::WarningOfAlgorithm(deps_.setup.job, context_.steps_per_epoch);
  // Else every daemon has logged it as a warning of the job.
  if (!warning.empty() && algorithm::WarningOfAlgorithm(deps_.setup.job).empty())
    LOG(WARNING) << warning;
  return Ok();
}

Status Trainer::Run() {
  const TraceThread trace_thread("compute");
  while (true) {
    const Status status = Train();
    if (pending_restart_.has_value()) continue;
    if (!status.ok()) evaluation_files_.OnFailed(figures_);
    // It is needed even if the job has ended without this worker: the net thread waits for it.
    const bool has_figures = status.ok() || has_last_evaluation_;
    deps_.port.Finish(status, has_figures ? figures_.newest_evaluation() : pb::Figures(),
                      has_rounds_ ? steps_done_ : 0);
    if (!status.ok()) return status;
    const Status serve_status = ServeUntilJobEnds();
    if (!pending_restart_.has_value()) return serve_status;
  }
}

Status Trainer::Train() {
  if (pending_restart_.has_value()) TERN_RETURN_IF_ERROR(Restart());
  TERN_RETURN_IF_ERROR(WaitUntil([this] { return ready_round_.has_value(); }));
  TERN_RETURN_IF_ERROR(RestoreLocalCheckpoint());
  TERN_RETURN_IF_ERROR(algorithm_->Begin(*ready_round_));
  TERN_RETURN_IF_ERROR(RestorePrivateState());
  StopOrSaveAfter(stop_after_, save_after_);
  StopAsRecorded(/*was_evaluated=*/false);
  TERN_RETURN_IF_ERROR(TrainSteps());
  TERN_RETURN_IF_ERROR(EndTogether());
  has_last_evaluation_ = true;
  if (setup::IsClientJob(deps_.setup.job)) return Ok();  // The weights are the program's.
  TERN_RETURN_IF_ERROR(WriteResults(deps_.setup.job.output_dir(),
                                    StepOfFigures(has_rounds_, steps_done_, deps_.steps), &figures_,
                                    &state_, [this](uint32_t purpose, const pb::Figures& figures) {
                                      return ExchangeFigures(purpose, figures);
                                    }));
  evaluation_files_.OnResultsWritten(figures_);
  TERN_RETURN_IF_ERROR(figures_.evaluation_status().Within(
      "the weights are written, but their last evaluation has failed"));
  return end_checkpoint_status_;
}

Status Trainer::TrainSteps() {
  steps_done_ = checkpoint_step_ = algorithm_->first_step() - 1;
  deps_.progress.job_step = steps_done_;
  evaluation_files_.Begin(steps_done_ == 0 ? 0
                                           : StepOfFigures(has_rounds_, steps_done_, deps_.steps));
  if (deps_.checkpoints != nullptr) {
    TERN_RETURN_IF_ERROR(deps_.checkpoints->Begin(run_, steps_done_, has_past_));
    deps_.port.OfferCheckpoints(deps_.checkpoints->Offers());
  }
  deps_.compute.Begin(steps_done_);
  const EndOfSteps end_of_steps{deps_.compute};
  traced_steps_.Begin(steps_done_, deps_.steps);
  const uint64_t to_step = has_rounds_ ? last_step_ : deps_.steps;
  LOG(INFO) << "training from step " << steps_done_ + 1
            << (to_step < setup::kUnknownSteps ? Cat(" to ", to_step) : "");
  while (true) {
    traced_steps_.OnStep(steps_done_ + 1);
    TERN_RETURN_IF_ERROR(WriteCheckpointIfDue());
    if (deps_.observer != nullptr) deps_.observer->OnSteps(steps_done_);
    if (steps_done_ >= last_step_) return Ok();
    // The steps whose losses the job's end reports are the same with and without rounds.
    if (!has_rounds_ && steps_done_ < deps_.steps && figures_.IsDue(steps_done_))
      gradient_.TakeLosses();
    if (has_rounds_ && figures_.IsDue(steps_done_)) TERN_RETURN_IF_ERROR(ExchangeDueFigures());
    TERN_RETURN_IF_ERROR(HandleArrivedEvents());
    if (leave_status_.has_value()) return *leave_status_;
    SetFailpointStep(steps_done_ + 1);
    HitFailpoint(FailPlace::kThreadCompute);
    TimeScope time(deps_.progress.train_time);
    const TraceSpan span("step", {.step = steps_done_ + 1});
    deps_.compute.OpenStep();
    {
      const TimeScope program_time(deps_.progress.compute_time);
      TERN_RETURN_IF_ERROR(AwaitProgram([this] {
        if (save_is_wanted_ && !deps_.compute.HasSamples())
          (void)WriteCheckpoint();  // A write that fails is counted; a device fails again.
        return deps_.compute.HasSamples();
      }));
    }
    TERN_RETURN_IF_ERROR(gradient_.FetchSamples());
    TERN_RETURN_IF_ERROR(algorithm_->Step(steps_done_ + 1));
    if (deps_.compute.IsOver()) return Ok();
    deps_.progress.job_step = ++steps_done_;
    deps_.progress.rounds.Add();
    deps_.progress.learning_rate.Set(schedule_.Rate(steps_done_ - 1));
    deps_.progress.CountAdvance();
  }
}

Status Trainer::ExchangeDueFigures() {
  // A round of local steps may have several steps with figures due: each kind is exchanged once.
  const uint64_t pushed_round = algorithm_->last_pushed_round();
  const bool compares = pushed_round > compared_round_;
  const bool evaluates = figures_.EvaluationIsDue(steps_done_) && pushed_round > evaluated_round_;
  if (!compares && !evaluates) return Ok();
  const TraceSpan span("compare, evaluate", {.step = steps_done_});
  {
    TimeScope time(deps_.progress.train_time);
    TERN_RETURN_IF_ERROR(algorithm_->Drain());
  }
  if (compares)
    TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kCompare, figures_.MakeComparisonFigures()));
  if (!evaluates) return Ok();
  TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kEvaluate, figures_.Evaluate(false)));
  return figures_.evaluation_status();
}

Status Trainer::EndTogether() {
  // With rounds, the workers exchange figures (metrics) about the last weights. Without rounds,
  // they do so after all workers have sent their last pushes.
  if (has_rounds_) {
    TimeScope time(deps_.progress.train_time);
    TERN_RETURN_IF_ERROR(algorithm_->DrainAtEnd(steps_done_));
  } else {
    TERN_RETURN_IF_ERROR(algorithm_->Leave());
  }
  TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kCompare, figures_.MakeComparisonFigures()));
  if (!has_rounds_) TERN_RETURN_IF_ERROR(algorithm_->Drain());
  TERN_RETURN_IF_ERROR(ExchangeFigures(protocol::kEvaluate, figures_.Evaluate(true)));
  return CheckLossIsFinite(deps_.setup.job, figures_.newest_evaluation(),
                           StepOfFigures(has_rounds_, steps_done_, deps_.steps));
}

Status Trainer::ServeUntilJobEnds() {
  while (std::optional<Event> event = AwaitEvent(deps_.events, deps_.progress)) {
    if (std::holds_alternative<Ended>(*event)) return Ok();
    if (std::holds_alternative<SnapshotWanted>(*event)) TERN_RETURN_IF_ERROR(SendState());
    if (const auto* went_back = std::get_if<WentBack>(&*event)) return RestartFrom(*went_back);
    if (const auto* resume = std::get_if<ResumeWanted>(&*event)) return RestartFrom(*resume);
  }
  return Ok();
}

void Trainer::CopyScalers() {
  const auto scalers = sums_.SaveScalers(algorithm_->applied());
  for (size_t i = 0; i < scalers.size(); ++i)
    std::copy(scalers[i].begin(), scalers[i].end(), state_scalers_[i].begin());
}

Status Trainer::SendState() {
  if (setup::IsClientJob(deps_.setup.job)) {
    deps_.compute.AskForState();
    return Ok();
  }
  TERN_RETURN_IF_ERROR(deps_.replica.CopyToHost());
  CopyScalers();
  deps_.port.SendSnapshot(algorithm_->SaveState(), algorithm_->applied());
  return Ok();
}

Status Trainer::WaitUntil(const std::function<bool()>& is_done) {
  if (is_done()) return Ok();
  TimeScope wait_scope(deps_.progress.wait_time);
  const TraceSpan span("wait for servers");
  while (!is_done()) {
    std::optional<Event> event = AwaitEvent(deps_.events, deps_.progress);
    if (!event.has_value()) return Status(Code::kInternal, "the net thread is gone");
    TERN_RETURN_IF_ERROR(HandleEvent(std::move(*event)));
    if (leaves_at_once_) return *leave_status_;
  }
  return Ok();
}

Status Trainer::RestartFrom(RestartEvent event) {
  pending_restart_ = std::move(event);
  ready_round_.reset();
  return Status(Code::kPeerLost, "this worker restarts");  // Run does not report this error.
}

Status Trainer::AwaitProgram(const std::function<bool()>& is_done) {
  while (!is_done()) {
    std::optional<Event> event = AwaitEvent(deps_.events, deps_.progress);
    if (!event.has_value()) return Status(Code::kInternal, "the net thread is gone");
    TERN_RETURN_IF_ERROR(HandleEvent(std::move(*event)));
    if (leave_status_.has_value()) return *leave_status_;
  }
  return Ok();
}

Status Trainer::HandleArrivedEvents() {
  while (std::optional<Event> event = deps_.events.TryPop())
    TERN_RETURN_IF_ERROR(HandleEvent(std::move(*event)));
  return Ok();
}

Status Trainer::HandleEvent(Event event) {
  if (const auto* answer = std::get_if<Answer>(&event)) return OnAnswer(*answer);
  if (const auto* ready = std::get_if<ReadyToTrain>(&event)) {
    ready_round_ = ready->applied;
    stop_after_ = ready->stop_after;
    save_after_ = ready->checkpoint_after;
    run_ = ready->run;
  } else if (std::holds_alternative<SnapshotWanted>(event)) {
    // This thread waits, or is between two steps: the parameters are those after a whole round.
    return SendState();
  } else if (auto* arrived = std::get_if<StateArrived>(&event)) {
    return RestartFrom(std::move(*arrived));
  } else if (const auto* went_back = std::get_if<WentBack>(&event)) {
    return RestartFrom(*went_back);
  } else if (const auto* resume = std::get_if<ResumeWanted>(&event)) {
    return RestartFrom(*resume);
  } else if (const auto* leave = std::get_if<LeaveWanted>(&event)) {
    leave_status_ = leave->status;
    leaves_at_once_ = leave->at_once;
    if (!ready_round_.has_value()) return *leave_status_;
  } else if (auto* given = std::get_if<StateGiven>(&event)) {
    if (given->applied != algorithm_->applied()) {
      deps_.compute.AskForState();
    } else {
      deps_.port.SendSnapshot(std::move(given->state), given->applied);
    }
  } else if (std::holds_alternative<SaveWanted>(event)) {
    save_is_wanted_ = true;
  } else if (std::holds_alternative<SamplesReady>(event)) {
    return deps_.compute.status();  // The program may have left.
  } else {
    return std::get<Ended>(event).status;
  }
  return Ok();
}

Status Trainer::OnAnswer(const Answer& answer) {
  if (answer.cell.kind == protocol::Kind::kFigures) {
    has_figures_answer_ = true;
    const uint64_t step = StepOfFigures(has_rounds_, steps_done_, deps_.steps);
    TERN_RETURN_IF_ERROR(figures_.OnAnswer(answer, step));
    if (deps_.observer != nullptr && figures_.HasLowestRank() &&
        answer.cell.chunk == protocol::kEvaluate)
      deps_.observer->OnEvaluation(step, figures_.newest_evaluation());
    if (answer.cell.chunk == protocol::kCompare) evaluation_files_.OnCompared(step, figures_);
    if (answer.cell.chunk != protocol::kEvaluate) return Ok();
    evaluation_files_.OnEvaluated(step, figures_, state_);
    StopAsRecorded(/*was_evaluated=*/true);
    return Ok();
  }
  sums_.Store(answer);
  if (answer.cell.kind != protocol::Kind::kPush) return algorithm_->OnAnswers();
  StopOrSaveAfter(protocol::LastExchangeOf(answer.outcome),
                  protocol::CheckpointRoundOf(answer.outcome));
  if (answer.outcome.has_of_round()) global_batch_.OnOutcome(answer.outcome.of_round());
  return algorithm_->OnAnswers();
}

void Trainer::StopAsRecorded(bool was_evaluated) {
  EvaluationRecord& record = figures_.record();
  // The limits of a job that resumes may be wider than before.
  if (!record.StopsJob()) return record.ForgetLastStep();
  // The next round is the last, as after a signal.
  if (has_rounds_ && was_evaluated) record.SetLastStep(algorithm_->EndOfRoundAt(steps_done_ + 1));
  if (record.last_step() == 0 || record.last_step() >= last_step_) return;
  last_step_ = std::max(record.last_step(), algorithm_->first_step() - 1);
  LOG(INFO) << "train.stop_when: " << record.Get().not_better()
            << " evaluations were not better than that with accuracy "
            << record.Get().bar_accuracy() << ", so the job ends after step " << last_step_;
}

Status Trainer::ExchangeFigures(uint32_t purpose, const Result<pb::Figures>& own_figures) {
  if (!own_figures.ok()) return own_figures.status();
  (purpose == protocol::kCompare ? compared_round_ : evaluated_round_) = algorithm_->applied();
  has_figures_answer_ = false;
  const uint64_t round = has_rounds_ ? algorithm_->applied() + 1 : 1;
  deps_.port.Contribute({protocol::Kind::kFigures, 0, purpose},
                        protocol::InRound{round, Bytes::Own(own_figures->SerializeAsString())});
  return WaitUntil([this] { return has_figures_answer_; });
}

}  // namespace tern::client
