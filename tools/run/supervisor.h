// The processes of a job on this machine, from start to end.
//
//   running --1--> ending --deadline--> SIGTERM to all --2 s--> SIGKILL to all
//
//   1         a failure that is not mended; or shard 0 reports that the job ended; or a stop signal
//             while shard 0 is not running. While ending, processes leave by themselves
//   deadline  3 s after the job's end; after a failure the lost member's `grace`, or its `notice`
//             if nobody will take its place, or `settle` if the job had not begun
//
// Mending a failure means starting the process again. That needs restarts left and a job that waits
// for the process; a failure that would come again (a full disk, bad data) is not mended. After a
// signal it happens at once; otherwise after `settle`, when it is clear that the process did not
// leave because the job ended. The first SIGTERM or SIGINT is passed to shard 0, which stops the
// job in order; the second to all processes; a third one kills them.
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
    Time grace{};            // how long the others may take to end by themselves after its loss
    Time notice{};           // ... if nobody will take its place: to hear of it, and to end
  };
  struct Options {
    std::vector<Member> members;  // shard 0 first
    uint32_t restarts = 0;        // for all together
    int progress_fd = -1;         // shard 0's JSON lines; non-blocking
    Time settle{};  // time for shard 0, after a process left, to report that the job ended or has
                    // begun
  };
  // `signals` reports second signals; it and `screen` outlive the supervisor.
  Supervisor(Options options, StopSignals& signals, Screen& screen);

  // Runs until all processes have ended. An error means that one could not be started; the others
  // are killed.
  Status Run();

  // After Run: how it ended, the last JSON line of shard 0, and the number of restarts.
  Status verdict() const { return Judge(failures_, ended_, stop_); }
  const std::string& newest() const { return newest_; }
  uint32_t restarts() const { return restarts_; }

 private:
  struct Child {
    Member member;
    std::unique_ptr<Process> process;
    bool running = false;
    bool told_to_end = false;  // by our signal: any exit is then fine
    std::optional<Time> restart_at;
  };

  Status Start(Child* child, bool again);
  void Wait();
  void ReadProgress();
  void OnNews(const std::string& line);
  void OnEnd(const setup::News& news);  // of the job
  void OnStopSignals();
  void OnExit(Child* child, const Exit& exit);
  void Mend(Child* child, const Exit& exit);
  Status OnTimers();
  bool AnyWorkerRuns() const;  // or will again
  void EndWithin(Time grace);
  void CancelRestarts();
  void SignalAll(int signal);
  bool Over() const;

  const Options options_;
  StopSignals& signals_;
  Screen& screen_;
  std::vector<Child> children_;
  std::string buffer_, newest_;
  std::vector<Failure> failures_;  // since the job last continued after one
  std::optional<setup::News> ended_;
  bool started_ = false;  // all workers were present once
  bool gave_up_ = false;  // we ended the job ourselves: ignore what shard 0 reports then
  StopSignal stop_;
  int stops_ = 0;
  uint32_t restarts_ = 0;
  uint64_t rounds_ = 0;  // of the newest progress
  Time lost_at_{};       // the newest failure or restart
  Time grace_{};         // of the newest loss
  std::optional<Time> end_at_, kill_at_;
};

}  // namespace tern::tools
