#include "tools/run/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "common/protocol/members/control.h"

namespace tern::tools {
namespace {

using std::chrono::seconds;

// All processes must end within this time after the end of the job.
constexpr Time kExitTime = seconds(3);
// Programs that took part in a job that failed or was stopped: they may save something.
constexpr Time kProgramExitTime = seconds(10);
// How often the output of programs is printed.
constexpr Time kBetweenPrints = std::chrono::milliseconds(100);
// What is wrong with a program that exits with 0 too early.
constexpr const char* kLeftEarly =
    "it ended before the job did; a program joins the job by tern.torch.ddp, tern_train.Client or "
    "tern_open, and waits until all have finished";
constexpr Time kBetweenSignals = seconds(2);  // The time from SIGTERM to SIGKILL.
// Shard 0, the server that reports progress, knows within this time that a process was lost.
constexpr Time kLossDetectionTime = seconds(5);

}  // namespace

Supervisor::Supervisor(Options options, StopSignals& stop_signals, setup::Screen& screen)
    : options_(std::move(options)),
      starter_(options_.starter == nullptr ? local_starter_ : *options_.starter),
      stop_signals_(stop_signals),
      screen_(screen),
      silence_(options_.silence) {
  size_t num_workers = 0;
  for (const Member& member : options_.members) {
    Child& child = children_.emplace_back();
    child.member = member;
    if (member.is_worker) child.rank = num_workers++;
  }
}

Status Supervisor::Run() {
  if (options_.program_output != nullptr) {
    auto guard = GroupGuard::Start();
    if (!guard.ok()) return guard.status();
    guard_ = std::move(*guard);
  }
  for (Child& child : children_) TERN_RETURN_IF_ERROR(StartChild(&child, false));
  start_notice_at_ = Now() + options_.start_notice_after;
  while (!HaveAllEnded()) {
    WaitForEvent();
    starter_.Receive();
    ReadProgress();  // Before the exits are handled: shard 0 reports the job's end, then exits.
    OnStopSignals();
    for (Child& child : children_) {
      if (!child.is_running) continue;
      const std::optional<Exit> exit = child.process->TryWait();
      if (!exit.has_value()) continue;
      if (options_.program_output != nullptr) options_.program_output->Finish(child.member.spec);
      OnExit(&child, *exit);
    }
    if (options_.program_output != nullptr) options_.program_output->PrintNew();
    TERN_RETURN_IF_ERROR(OnTimers());
  }
  ReadProgress();
  return Ok();
}

bool Supervisor::HaveAllEnded() const {
  return std::none_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.is_running || child.restart_at.has_value() || child.left_at.has_value();
  });
}

Status Supervisor::StartChild(Child* child, bool is_restart) {
  child->member.spec.appends_output = is_restart;
  ProcessSpec spec = child->member.spec;
  const std::vector<std::string>& first_arguments = child->member.first_arguments;
  if (!is_restart)
    spec.arguments.insert(spec.arguments.end(), first_arguments.begin(), first_arguments.end());
  auto process = starter_.Start(spec);
  if (!process.ok()) return process.status();
  child->process = std::move(*process);
  child->is_running = true;
  child->is_expected_back = is_restart && child->member.is_worker;
  if (guard_ != nullptr && spec.is_users_program) guard_->Watch(child->process->pid());
  if (spec.is_users_program && options_.program_output != nullptr && !is_restart)
    TERN_RETURN_IF_ERROR(options_.program_output->Add(spec));
  if (const pid_t pid = child->process->pid(); pid != 0)  // Else the starter says it.
    screen_.PrintLine(Cat(spec.name, " is process ", pid));
  return Ok();
}

void Supervisor::WaitForEvent() {
  std::vector<pollfd> poll_fds = {{stop_signals_.fd(), POLLIN, 0},
                                  {options_.progress_fd, POLLIN, 0}};
  std::optional<Time> wake_time = terminate_at_;
  const auto wake_no_later_than = [&wake_time](const std::optional<Time>& deadline) {
    if (deadline.has_value() && (!wake_time.has_value() || *deadline < *wake_time))
      wake_time = deadline;
  };
  wake_no_later_than(kill_at_);
  wake_no_later_than(start_notice_at_);
  wake_no_later_than(silence_.NextDue());
  wake_no_later_than(starter_.NextDue());
  if (AnyProgramRuns()) wake_no_later_than(Now() + kBetweenPrints);
  for (const Child& child : children_) {
    if (child.is_running) poll_fds.push_back({child.process->event_fd(), POLLIN, 0});
    wake_no_later_than(child.restart_at);
    wake_no_later_than(child.left_at);
  }
  int timeout_ms = -1;
  if (wake_time.has_value()) {
    const int64_t milliseconds_left =
        std::chrono::duration_cast<std::chrono::milliseconds>(*wake_time - Now()).count() + 1;
    timeout_ms = static_cast<int>(std::clamp<int64_t>(milliseconds_left, 0, 1'000'000));
  }
  // The caller checks every source of events, so the result does not matter.
  poll(poll_fds.data(), poll_fds.size(), timeout_ms);
}

void Supervisor::ReadProgress() {
  progress_lines_.Read(options_.progress_fd,
                       [this](const std::string& line) { OnProgressLine(line); });
}

void Supervisor::OnProgressLine(const std::string& line) {
  const std::optional<setup::ProgressUpdate> update = setup::ParseProgressUpdate(line);
  if (!update.has_value()) return;
  newest_progress_ = line;
  newest_update_ = *update;
  for (Failure& failure : failures_) LearnProgramPid(*update, Now(), &failure);
  AnnounceReturns(*update);
  if (update->has_ended) {
    silence_.Cease();
    screen_.Announce(*update);
    if (!has_given_up_) OnJobEnd(*update);
    return EndAfterReport();
  }
  if (!job_has_begun_ && (update->rounds > 0 || (update->num_workers > 0 &&
                                                 update->num_present == update->num_workers))) {
    job_has_begun_ = true;
    start_notice_at_.reset();
    if (terminate_at_.has_value()) {
      terminate_at_.reset();
      EndWithin(last_grace_);
    }
  }
  silence_.OnReport(job_has_begun_, Now());
  if (Now() - newest_loss_at_ > kLossDetectionTime && update->num_present == update->num_workers &&
      update->rounds > newest_rounds_) {
    // The job has recovered: the supervisor or a user has restarted the failed process.
    if (!kill_at_.has_value()) terminate_at_.reset();
    failures_.clear();
  }
  newest_rounds_ = update->rounds;
  screen_.ShowProgress(line, Now());
}

void Supervisor::AnnounceReturns(const setup::ProgressUpdate& update) {
  for (Child& child : children_) {
    if (child.rank.value_or(SIZE_MAX) >= update.processes.size()) continue;
    const setup::ProgressUpdate::WorkerProcess& seen = update.processes[*child.rank];
    // Shard 0 may still report the process before.
    if (!child.is_expected_back || seen.step == 0 ||
        seen.pid != static_cast<uint64_t>(child.process->pid()))
      continue;
    child.is_expected_back = false;
    screen_.PrintLine(
        Cat(child.member.spec.name, " is back and trains on: it has done step ", seen.step));
  }
}

void Supervisor::OnJobEnd(const setup::ProgressUpdate& update) {
  end_report_ = update;
  for (Child& child : children_) child.left_at.reset();
  if (update.num_present != update.num_workers) return;
  // All workers were there at the end. So one that failed did so later, unless it was replaced.
  for (Failure& failure : failures_) {
    const auto is_last = [&](const Child& child) {
      return child.rank == failure.rank && !child.is_running &&
             child.process->pid() == failure.pid && !WasReplaced(failure, update);
    };
    failure.job_was_over |= std::any_of(children_.begin(), children_.end(), is_last);
  }
}

void Supervisor::OnStopSignals() {
  if (stop_signals_.TakeCheckpoint() && children_[0].is_running)
    children_[0].process->Signal(SIGUSR1);
  for (int signal = stop_signals_.TakeSignal(); signal != 0; signal = stop_signals_.TakeSignal()) {
    if (user_stop_.signal == 0) user_stop_.signal = signal;
    CancelRestarts();
    switch (++num_stop_signals_) {
      case 1:
        // Without shard 0, or after the job's end, the programs do not learn of the signal.
        if (!children_[0].is_running || (end_report_.has_value() && AnyProgramRuns())) {
          user_stop_.ended_programs = AnyProgramRuns();
          EndWithin(Time(0));
          break;
        }
        screen_.PrintLine("stopping in order after this round; once more stops at once");
        children_[0].process->Signal(signal);
        if (!end_report_.has_value()) silence_.OnStop(Now());
        break;
      case 2:
        user_stop_.was_forced = !end_report_.has_value();
        silence_.Cease();
        SignalAll(signal);
        kill_at_ = Now() + kBetweenSignals;
        break;
      default:
        SignalAll(SIGKILL);
        break;
    }
  }
}

bool Supervisor::IsFailure(const Child& child, const Exit& exit) const {
  if ((exit.signal == 0 && exit.code == 0) || child.was_signalled) return false;
  if (child.member.spec.is_users_program) {
    // A program says by any code why it ended. After the end of a job that failed it passes on the
    // job's code, and after a stop signal it ends as it likes.
    if (user_stop_.signal != 0) return false;
    return exit.signal != 0 || !end_report_.has_value() || exit.code != end_report_->code;
  }
  const bool has_crashed = exit.signal != 0 || exit.code == static_cast<int>(Code::kInternal);
  // A stop signal kills a process that has not installed its signal handlers yet. Other processes
  // then exit with the code 128 + signal.
  const bool was_stopped_by_user = user_stop_.signal != 0 && (exit.signal == user_stop_.signal ||
                                                              exit.code == 128 + user_stop_.signal);
  const bool has_own_reason =
      end_report_.has_value() && HasReasonCode(exit) && exit.code != end_report_->code;
  return !was_stopped_by_user && (has_crashed || has_own_reason || !end_report_.has_value());
}

void Supervisor::AddFailure(Child* child, const Exit& exit, const std::string& sentence) {
  newest_loss_at_ = Now();
  const ProcessSpec& spec = child->member.spec;
  failures_.push_back({spec.name, spec.host, child->process->pid(), exit, sentence,
                       spec.stderr_path, end_report_.has_value(), spec.is_users_program, 0,
                       child->rank.value_or(SIZE_MAX), newest_loss_at_});
  LearnProgramPid(newest_update_, newest_loss_at_, &failures_.back());
  RestartOrEnd(child, exit);
}

void Supervisor::OnExit(Child* child, const Exit& exit) {
  child->is_running = false;
  if (child == &children_[0]) silence_.Cease();
  if (guard_ != nullptr && child->member.spec.is_users_program)
    guard_->Forget(child->process->pid());
  if (IsFailure(*child, exit)) {
    AddFailure(child, exit, child->process->LastSentence());
  } else if (child->member.spec.is_users_program && !child->was_signalled &&
             user_stop_.signal == 0 && !end_report_.has_value()) {
    child->left_at = Now() + options_.max_end_delay;
  }
  EndAfterReport();
  // Without shard 0 the other processes do not learn of the stop signal.
  if (user_stop_.signal != 0 && child == &children_[0] && !end_report_.has_value())
    EndWithin(Time(0));
}

void Supervisor::RestartOrEnd(Child* child, const Exit& exit) {
  std::string failure_text = Describe(failures_.back());
  const bool would_recur = WouldRecur(failures_.back());
  const bool may_restart = child->member.job_waits && !would_recur && user_stop_.signal == 0 &&
                           !terminate_at_.has_value() && !end_report_.has_value();
  // All that a host's connection has taken along comes back together.
  const bool is_counted =
      !exit.was_lost || std::none_of(children_.begin(), children_.end(), [&](const Child& other) {
        return other.restart_at.has_value() && other.member.spec.host == child->member.spec.host;
      });
  if (may_restart && (!is_counted || num_restarts_ < options_.max_restarts)) {
    child->is_restart_counted = is_counted;
    if (is_counted) ++num_restarts_;
    child->restart_at =
        Now() + (exit.signal != 0 && !exit.was_lost ? Time(0) : options_.max_report_delay);
    return screen_.PrintLine(Cat(failure_text, "\n  it is started again (", num_restarts_, " of ",
                                 options_.max_restarts, ")"));
  }
  const bool are_used_up = may_restart && options_.max_restarts > 0;
  if (are_used_up)
    failure_text +=
        Cat("\n  it is not started again: all restarts (", num_restarts_, ") are used up");
  // After the first failure, a process that exited because another one was lost is not printed.
  if (are_used_up || failures_.size() == 1 || exit.signal != 0 ||
      exit.code != static_cast<int>(Code::kPeerLost))
    screen_.PrintLine(failure_text);
  // No process can replace a member that would fail again, or the last worker.
  last_grace_ =
      would_recur || !AnyWorkerRuns() ? child->member.grace_if_irreplaceable : child->member.grace;
  // If the job has not begun, the other processes need not wait. But shard 0's report that the job
  // has begun may still be on its way.
  EndWithin(job_has_begun_ ? last_grace_ : options_.max_report_delay);
}

void Supervisor::EndAfterReport() {
  if (!end_report_.has_value()) return;
  if (!AnyProgramRuns()) return EndWithin(kExitTime);
  if (end_report_->code != 0) EndWithin(job_has_begun_ ? kProgramExitTime : kExitTime);
}

bool Supervisor::AnyProgramRuns() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.is_running && child.member.spec.is_users_program;
  });
}

bool Supervisor::AnyWorkerRuns() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.member.is_worker && (child.is_running || child.restart_at.has_value());
  });
}

void Supervisor::EndWithin(Time grace) {
  const Time new_deadline = Now() + grace;
  if (!kill_at_.has_value() && (!terminate_at_.has_value() || new_deadline < *terminate_at_))
    terminate_at_ = new_deadline;
  CancelRestarts();
}

void Supervisor::CancelRestarts() {
  for (Child& child : children_) {
    child.left_at.reset();
    if (child.restart_at.has_value() && child.is_restart_counted) --num_restarts_;
    child.restart_at.reset();
  }
}

void Supervisor::ShowWhoIsAwaited(Time now) {
  start_notice_at_.reset();
  silence_.SetNotice(std::nullopt);
  if (user_stop_.signal != 0 || end_report_.has_value()) return;
  if (job_has_begun_ ? !children_[0].is_running : terminate_at_.has_value()) return;
  std::vector<LastLine> last_lines, of_workers;
  for (const Child& child : children_) {
    if (!child.is_running || (job_has_begun_ && &child == &children_[0])) continue;
    last_lines.push_back({child.member.spec.name, child.process->LastSentence()});
    if (child.member.is_worker) of_workers.push_back(last_lines.back());
  }
  const std::string lines = LinesOfWaiting(last_lines);
  // A program of the user's does not say whom it awaits.
  const bool has_worker_spoken = AnyProgramRuns() || !LinesOfWaiting(of_workers).empty();
  if (job_has_begun_) {
    if (has_worker_spoken) screen_.PrintLine(silence_.Text(now) + lines);
    silence_.SetNotice(
        now + (has_worker_spoken ? protocol::kAwaitedLogInterval : options_.silence.notice_after));
  } else if (has_worker_spoken && !lines.empty()) {
    screen_.PrintLine("the job has not begun yet" + lines);
  } else {  // The workers still read their data.
    start_notice_at_ = now + options_.start_notice_after;
  }
}

Status Supervisor::OnTimers() {
  const Time now = Now();
  const bool is_start_notice_due = start_notice_at_.has_value() && now >= *start_notice_at_;
  if (is_start_notice_due || silence_.IsNoticeDue(now)) ShowWhoIsAwaited(now);
  if (silence_.IsEndDue(now)) {
    screen_.PrintLine(silence_.EndText(now));
    silence_.Cease();
    EndWithin(Time(0));
  }
  for (Child& child : children_) {
    if (child.left_at.has_value() && now >= *child.left_at) {
      child.left_at.reset();
      AddFailure(&child, Exit{}, kLeftEarly);
    }
    if (!child.restart_at.has_value() || now < *child.restart_at) continue;
    child.restart_at.reset();
    newest_loss_at_ = now;
    TERN_RETURN_IF_ERROR(StartChild(&child, true));
  }
  if (terminate_at_.has_value() && now >= *terminate_at_) {
    terminate_at_.reset();
    kill_at_ = now + kBetweenSignals;
    has_given_up_ = !end_report_.has_value();
    SignalAll(SIGTERM);
  } else if (kill_at_.has_value() && now >= *kill_at_) {
    kill_at_.reset();
    SignalAll(SIGKILL);
  }
  return Ok();
}

void Supervisor::SignalAll(int signal) {
  for (Child& child : children_) {
    if (!child.is_running) continue;
    child.was_signalled = true;
    child.process->Signal(signal);
  }
}

}  // namespace tern::tools
