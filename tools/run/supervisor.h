// Supervises the processes of a job on this machine from start to end.
//
//   running --1--> ending --deadline--> SIGTERM to all --2 s--> SIGKILL to all
//
//   1         a failure without a restart; or shard 0 reports that the job ended; or a stop signal
//             while shard 0 is not running. While ending, processes exit by themselves
//   deadline  3 s after the job's end; after a failure the lost member's `grace`, or its `notice`
//             if no process can replace it, or `settle` if the job had not begun
//
// A failed process is restarted if restarts are left, the job waits for it, and it would not fail
// the same way again (a full disk, bad data). After a kill by a signal the restart is immediate;
// otherwise it happens after `settle`, when it is clear that the process did not exit because the
// job ended. The first SIGTERM or SIGINT is passed to shard 0, which stops the job in order; the
// second one to all processes; a third one kills them.
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
#include "tools/run/process.h"
#include "tools/run/screen.h"
#include "tools/run/verdict.h"

namespace tern::tools {

class Supervisor {
 public:
  struct Member {
    ProcessSpec spec;
    bool is_worker = false;
    bool job_waits = false;  // the job continues when this process comes back
    Time grace{};            // how long the other processes may take to end after its loss
    Time notice{};           // the same if no process can replace it: to notice the loss and to end
  };
  struct Options {
    std::vector<Member> members;  // shard 0 is the first
    uint32_t restarts = 0;        // the limit, over all members
    int progress_fd = -1;         // non-blocking; shard 0 writes JSON lines to its other end
    // How long shard 0 may take, after a process exited, to report that the job ended or has begun.
    Time settle{};
  };
  // `signals` reports second signals; it and `screen` outlive the supervisor.
  Supervisor(Options options, StopSignals& signals, Screen& screen);

  // Runs until all processes have ended. An error means that one could not be started; the others
  // are killed.
  Status Run();

  // After Run: how it ended, the last JSON line of shard 0, and the number of restarts.
  Status verdict() const { return JudgeRun(failures_, ended_, stop_); }
  const std::string& newest() const { return newest_; }
  uint32_t restarts() const { return restarts_; }

 private:
  struct Child {
    Member member;
    std::unique_ptr<Process> process;
    bool running = false;
    bool signalled = false;  // we told it to end, so its exit is no failure
    std::optional<Time> restart_at;
  };

  Status Start(Child* child, bool restart);
  void Wait();
  void ReadProgress();
  void OnStatusLine(const std::string& line);
  void OnJobEnd(const setup::ProgressUpdate& update);
  void OnStopSignals();
  void OnExit(Child* child, const Exit& exit);
  void RestartOrEnd(Child* child, const Exit& exit);
  Status OnTimers();
  bool AnyWorkerRuns() const;  // or will be restarted
  void EndWithin(Time grace);
  void CancelRestarts();
  void SignalAll(int signal);
  bool AllEnded() const;

  const Options options_;
  StopSignals& signals_;
  Screen& screen_;
  std::vector<Child> children_;
  std::string buffer_, newest_;
  std::vector<Failure> failures_;  // since the job last recovered
  std::optional<setup::ProgressUpdate> ended_;
  bool started_ = false;  // all workers were present once
  bool gave_up_ = false;  // we ended the job; what shard 0 reports after that is ignored
  StopSignal stop_;
  int stops_ = 0;
  uint32_t restarts_ = 0;
  uint64_t rounds_ = 0;  // of the newest progress
  Time lost_at_{};       // when the newest failure or restart was
  Time grace_{};         // of the member that failed last
  std::optional<Time> end_at_, kill_at_;
};

}  // namespace tern::tools
