#include "tools/run/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/text.h"

namespace tern::tools {
namespace {

using std::chrono::seconds;

// All processes must end within this time after the end of the job.
constexpr Time kExitTime = seconds(3);
constexpr Time kBetweenSignals = seconds(2);  // The time from SIGTERM to SIGKILL.
// Shard 0 knows within this time that a process was lost.
constexpr Time kLossDetectionTime = seconds(5);
constexpr size_t kMaxLine = 1 << 20;

}  // namespace

Supervisor::Supervisor(Options options, StopSignals& signals, Screen& screen)
    : options_(std::move(options)), signals_(signals), screen_(screen) {
  for (const Member& member : options_.members) children_.emplace_back().member = member;
}

Status Supervisor::Run() {
  for (Child& child : children_) TERN_RETURN_IF_ERROR(Start(&child, false));
  while (!AllEnded()) {
    Wait();
    ReadProgress();  // Comes before the exits: shard 0 reports the end of the job, then exits.
    OnStopSignals();
    for (Child& child : children_) {
      if (!child.running) continue;
      if (const std::optional<Exit> exit = child.process->TryWait()) OnExit(&child, *exit);
    }
    TERN_RETURN_IF_ERROR(OnTimers());
  }
  ReadProgress();
  return Ok();
}

bool Supervisor::AllEnded() const {
  return std::none_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.running || child.restart_at.has_value();
  });
}

Status Supervisor::Start(Child* child, bool restart) {
  child->member.spec.append = restart;
  auto process = Process::Start(child->member.spec);
  if (!process.ok()) return process.status();
  child->process = std::move(*process);
  child->running = true;
  screen_.PrintLine(Cat(child->member.spec.name, " is process ", child->process->pid()));
  return Ok();
}

void Supervisor::Wait() {
  std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}, {options_.progress_fd, POLLIN, 0}};
  std::optional<Time> until = end_at_;
  const auto wake_at = [&until](const std::optional<Time>& at) {
    if (at.has_value() && (!until.has_value() || *at < *until)) until = at;
  };
  wake_at(kill_at_);
  for (const Child& child : children_) {
    if (child.running) fds.push_back({child.process->pidfd(), POLLIN, 0});
    wake_at(child.restart_at);
  }
  int milliseconds = -1;
  if (until.has_value()) {
    const int64_t left =
        std::chrono::duration_cast<std::chrono::milliseconds>(*until - Now()).count() + 1;
    milliseconds = static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
  }
  // The caller checks every source of events, so the result does not matter.
  poll(fds.data(), fds.size(), milliseconds);
}

void Supervisor::ReadProgress() {
  std::array<char, 16384> piece;
  for (ssize_t got = 0; (got = read(options_.progress_fd, piece.data(), piece.size())) > 0;) {
    buffer_.append(piece.data(), static_cast<size_t>(got));
    for (size_t end = 0; (end = buffer_.find('\n')) != std::string::npos;
         buffer_.erase(0, end + 1)) {
      OnStatusLine(buffer_.substr(0, end));
    }
    if (buffer_.size() > kMaxLine) buffer_.clear();
  }
}

void Supervisor::OnStatusLine(const std::string& line) {
  const std::optional<setup::ProgressUpdate> update = setup::ParseProgressUpdate(line);
  if (!update.has_value()) return;
  newest_ = line;
  if (update->ended) {
    screen_.AnnounceResume(*update);
    if (!gave_up_) OnJobEnd(*update);
    return EndWithin(kExitTime);
  }
  if (!started_ &&
      (update->rounds > 0 || (update->workers > 0 && update->present == update->workers))) {
    started_ = true;
    if (end_at_.has_value()) {
      end_at_.reset();
      EndWithin(grace_);
    }
  }
  if (Now() - lost_at_ > kLossDetectionTime && update->present == update->workers &&
      update->rounds > rounds_) {
    // The job has recovered: the supervisor or a user has restarted the failed process.
    if (!kill_at_.has_value()) end_at_.reset();
    failures_.clear();
  }
  rounds_ = update->rounds;
  screen_.Progress(line, Now());
}

void Supervisor::OnJobEnd(const setup::ProgressUpdate& update) {
  end_report_ = update;
  if (update.present != update.workers) return;
  // All workers were present when the job ended. So a worker that failed did so after the end, even
  // if its exit was seen before shard 0's report.
  for (Failure& failure : failures_) {
    failure.job_was_over |=
        std::any_of(children_.begin(), children_.end(), [&](const Child& child) {
          return child.member.is_worker && !child.running && child.process->pid() == failure.pid;
        });
  }
}

void Supervisor::OnStopSignals() {
  for (int signal = signals_.Take(); signal != 0; signal = signals_.Take()) {
    if (stop_.signal == 0) stop_.signal = signal;
    CancelRestarts();
    switch (++num_stop_signals_) {
      case 1:
        if (!children_[0].running) {
          EndWithin(Time(0));
          break;
        }
        screen_.PrintLine("stopping in order after this round; once more stops at once");
        children_[0].process->Signal(signal);
        break;
      case 2:
        stop_.forced = !end_report_.has_value();
        SignalAll(signal);
        kill_at_ = Now() + kBetweenSignals;
        break;
      default:
        SignalAll(SIGKILL);
        break;
    }
  }
}

void Supervisor::OnExit(Child* child, const Exit& exit) {
  child->running = false;
  const bool succeeded = exit.signal == 0 && exit.code == 0;
  const bool crashed = exit.signal != 0 || exit.code == static_cast<int>(Code::kInternal);
  // A process that has not installed its signal handlers is killed by the stop signal of a user.
  const bool stopped_by_user =
      stop_.signal != 0 && (exit.signal == stop_.signal || exit.code == 128 + stop_.signal);
  const bool has_own_reason =
      end_report_.has_value() && HasReasonCode(exit) && exit.code != end_report_->code;
  if (!succeeded && !child->signalled && !stopped_by_user &&
      (crashed || has_own_reason || !end_report_.has_value())) {
    lost_at_ = Now();
    const ProcessSpec& spec = child->member.spec;
    failures_.push_back({spec.name, child->process->pid(), exit, child->process->LastSentence(),
                         spec.stderr_path, end_report_.has_value()});
    RestartOrEnd(child, exit);
  }
  // Without shard 0 the other processes do not learn of the stop signal.
  if (stop_.signal != 0 && child == &children_[0] && !end_report_.has_value()) EndWithin(Time(0));
}

void Supervisor::RestartOrEnd(Child* child, const Exit& exit) {
  const std::string what = Describe(failures_.back());
  const bool would_recur = WouldRecur(exit);
  const bool may_restart = child->member.job_waits && !would_recur && stop_.signal == 0 &&
                           !end_at_.has_value() && !end_report_.has_value();
  if (may_restart && restarts_ < options_.restarts) {
    ++restarts_;
    child->restart_at = Now() + (exit.signal != 0 ? Time(0) : options_.settle);
    return screen_.PrintLine(
        Cat(what, "\n  it is started again (", restarts_, " of ", options_.restarts, ")"));
  }
  // Later processes that exited because another one was lost are not printed.
  if (failures_.size() == 1 || exit.signal != 0 || exit.code != static_cast<int>(Code::kPeerLost))
    screen_.PrintLine(what);
  // No process can replace a member that would fail again, or the last worker.
  grace_ = would_recur || !AnyWorkerRuns() ? child->member.notice : child->member.grace;
  // A job that has not begun need not wait. But its report that it has begun may still arrive
  // within `settle`.
  EndWithin(started_ ? grace_ : options_.settle);
}

bool Supervisor::AnyWorkerRuns() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.member.is_worker && (child.running || child.restart_at.has_value());
  });
}

void Supervisor::EndWithin(Time grace) {
  const Time at = Now() + grace;
  if (!kill_at_.has_value() && (!end_at_.has_value() || at < *end_at_)) end_at_ = at;
  CancelRestarts();
}

void Supervisor::CancelRestarts() {
  for (Child& child : children_) {
    if (child.restart_at.has_value()) --restarts_;
    child.restart_at.reset();
  }
}

Status Supervisor::OnTimers() {
  const Time now = Now();
  for (Child& child : children_) {
    if (!child.restart_at.has_value() || now < *child.restart_at) continue;
    child.restart_at.reset();
    lost_at_ = now;
    TERN_RETURN_IF_ERROR(Start(&child, true));
  }
  if (end_at_.has_value() && now >= *end_at_) {
    end_at_.reset();
    kill_at_ = now + kBetweenSignals;
    gave_up_ = !end_report_.has_value();
    SignalAll(SIGTERM);
  } else if (kill_at_.has_value() && now >= *kill_at_) {
    kill_at_.reset();
    SignalAll(SIGKILL);
  }
  return Ok();
}

void Supervisor::SignalAll(int signal) {
  for (Child& child : children_) {
    if (!child.running) continue;
    child.signalled = true;
    child.process->Signal(signal);
  }
}

}  // namespace tern::tools
