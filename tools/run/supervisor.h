// Supervises the processes of a job, on this machine or on several, from start to end.
//
//   running --1--> ending --deadline--> SIGTERM to all --2 s--> SIGKILL to all
//
//   1         a process failed and is not restarted; or shard 0 reports that the job ended; or a
//             stop signal has arrived and shard 0 is not running, or reports nothing any more
//             (shard0_silence.h)
//   deadline  3 s after the job's end; after a failure the `grace` of the process that failed, or
//             its `grace_if_irreplaceable`, or `max_report_delay` if the job had not begun; at once
//             after a stop signal without shard 0
//
// While the state is "ending", processes exit by themselves. The deadline after the job's end is
// another for programs of the user's: 10 s if the job had begun and failed or was stopped; none if
// it ended well, until all programs have ended.
//
// Shard 0 is the server that coordinates the job and reports its progress. A member is a process of
// the job.
//
// A failed process is restarted if restarts are left, the job waits for the process, and its
// failure would not recur (as that of a full disk or bad data would). After a kill by a signal the
// restart is immediate; otherwise it happens after `max_report_delay`, when it is clear that the
// process did not exit because the job ended, or its host may be back. The first stop signal is
// passed to shard 0, which stops the job in order; the second one to all processes; a third one
// kills them. SIGUSR1, which asks for a checkpoint, is passed to shard 0, too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "setup/report.h"
#include "setup/screen.h"
#include "tools/run/group_guard.h"
#include "tools/run/process.h"
#include "tools/run/program_output.h"
#include "tools/run/progress_pipe.h"
#include "tools/run/shard0_silence.h"
#include "tools/run/verdict.h"

namespace tern::tools {

class Supervisor {
 public:
  struct Member {
    ProcessSpec spec;
    bool is_worker = false;  // A tern_worker, or a program of the user's that takes part as one.
    bool job_waits = false;  // The job continues when this process is started again.
    Time return_time{};      // How long it waits for that.
    // How long the other processes may take to end after they lost this one: if a new process could
    // replace it, and if none can.
    Time grace{}, grace_if_irreplaceable{};
    // More arguments of the first process, which a restarted one does not get.
    std::vector<std::string> first_arguments{};
  };
  struct Options {
    std::vector<Member> members;  // Shard 0 is the first.
    // The maximum number of restarts of all members together. Those of a host whose connection is
    // lost count as one.
    uint32_t max_restarts = 0;
    int progress_fd = -1;  // The non-blocking pipe to which shard 0 writes JSON lines.
    // How long shard 0 may take, after a process exited, to report that the job ended or has begun.
    Time max_report_delay{};
    // If the job has not begun after this time, the screen shows whom the processes wait for. By
    // then a daemon that cannot reach another one has said so.
    Time start_notice_after = std::chrono::seconds(5);
    Shard0Silence::Limits silence{};  // The same for a job that has begun or was told to stop.
    // Prints what the user's programs write; null: there are none. Must outlive the supervisor.
    ProgramOutput* program_output = nullptr;
    // How long the end of a job may be unknown after a program has exited with 0. A program that
    // took part to the end exits after it.
    Time max_end_delay = std::chrono::seconds(3);
    // Starts the members; null: on this machine. Must outlive the supervisor.
    ProcessStarter* starter = nullptr;
  };
  // `stop_signals` also reports the signals after the first. `stop_signals` and `screen` must
  // outlive this object.
  Supervisor(Options options, StopSignals& stop_signals, setup::Screen& screen);

  // Runs until all processes have ended. Returns an error if a process could not be started; the
  // destructor then kills the others.
  Status Run();

  // To be called after Run: how the run ended, the last JSON line of shard 0, and how many restarts
  // were counted (Options::max_restarts).
  Status verdict() const { return JudgeRun(failures_, end_report_, user_stop_); }
  const std::string& newest_progress() const { return newest_progress_; }
  uint32_t restarts() const { return num_restarts_; }

 private:
  struct Child {
    Member member;
    std::optional<size_t> rank;  // of a worker
    std::unique_ptr<MemberProcess> process;
    bool is_running = false;
    bool is_expected_back = false;   // It was started again, and has not trained since.
    bool was_signalled = false;      // The supervisor told it to end, so its exit is no failure.
    std::optional<Time> restart_at;  // When it will be started again; empty: it will not be.
    bool is_restart_counted = true;  // No other one brings this process back, too.
    // When a program that has exited with 0 counts as failed, unless the job ends before.
    std::optional<Time> left_at;
  };

  Status StartChild(Child* child, bool is_restart);
  void WaitForEvent();
  void ReadProgress();
  void OnProgressLine(const std::string& line);
  void OnJobEnd(const setup::ProgressUpdate& update);
  // Prints which workers, of those that were started again, train again.
  void AnnounceReturns(const setup::ProgressUpdate& update);
  void OnStopSignals();
  void OnExit(Child* child, const Exit& exit);
  // Whether the exit, before or after the job's end, is a failure of the process itself.
  bool IsFailure(const Child& child, const Exit& exit) const;
  void AddFailure(Child* child, const Exit& exit, const std::string& sentence);
  void RestartOrEnd(Child* child, const Exit& exit);
  Status OnTimers();
  // Prints whom the processes wait for, once a worker has said that, or, of programs of the user's,
  // a server: if the job has not begun, or shard 0 reports nothing.
  void ShowWhoIsAwaited(Time now);
  // After the report of the job's end, limits the time until the processes end: not that of
  // programs after a job that ended well, which may have more to do.
  void EndAfterReport();
  // Returns whether a program of the user's runs.
  bool AnyProgramRuns() const;
  // Returns whether a worker runs or will be restarted.
  bool AnyWorkerRuns() const;
  void EndWithin(Time grace);
  void CancelRestarts();
  void SignalAll(int signal);
  bool HaveAllEnded() const;

  const Options options_;
  LocalStarter local_starter_;
  ProcessStarter& starter_;
  StopSignals& stop_signals_;
  setup::Screen& screen_;
  Shard0Silence silence_;
  std::unique_ptr<GroupGuard> guard_;  // Null if no member is a program of the user's.
  std::vector<Child> children_;        // They end before the guard.
  ProgressLines progress_lines_;
  std::string newest_progress_;
  setup::ProgressUpdate newest_update_;              // What is in newest_progress_.
  std::vector<Failure> failures_;                    // The failures since the job last recovered.
  std::optional<setup::ProgressUpdate> end_report_;  // Shard 0's report that the job ended.
  bool job_has_begun_ = false;  // All workers were present, or the job made progress.
  bool has_given_up_ =
      false;  // The supervisor ended the job and ignores shard 0's report of the end.
  StopSignal user_stop_;
  int num_stop_signals_ = 0;
  uint32_t num_restarts_ = 0;
  uint64_t newest_rounds_ = 0;           // The steps done, by shard 0's newest progress line.
  Time newest_loss_at_{};                // The time of the newest failure or restart.
  Time last_grace_{};                    // The grace of the newest failure without a restart.
  std::optional<Time> start_notice_at_;  // Empty once the job has begun, or the notice is shown.
  // When to send SIGTERM, and SIGKILL, to all processes.
  std::optional<Time> terminate_at_, kill_at_;
};

}  // namespace tern::tools
