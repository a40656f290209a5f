// The processes of a job on this machine, from start to end.
//
//   running --a failure that is not mended, or shard 0 says that the job ended--> ending (others
//   end by themselves)
//           --time is over--> SIGTERM to all --2 s--> SIGKILL to all
//
// A failure is mended by starting the process again, while there are restarts left and the job
// waits for such a one: at once after a signal killed it, else when it is clear that it did not
// leave because the job ended. One that would come again (a full disk, bad data) is not mended. The
// first SIGTERM or SIGINT goes on to shard 0, which stops the job in order; the second one to all;
// a third one kills them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/setup/report.h"
#include "tools/process.h"
#include "tools/screen.h"
#include "tools/verdict.h"

namespace tern::tools {

class Supervisor {
 public:
  struct Member {
    ProcessSpec spec;
    bool is_worker = false;
    bool job_waits = false;  // the job goes on when this one comes back
    Time grace{};            // how long the others may take to end by themselves once it is lost
    Time notice{};           // ... where nobody will take its place: to hear of it, and to end
  };
  struct Options {
    std::vector<Member> members;  // shard 0 first
    uint32_t restarts = 0;        // of all together
    int progress_fd = -1;         // shard 0's JSON lines; does not block
    Time settle{};  // after a process left: time for shard 0 to say that the job ended, or that it
                    // has begun
  };
  // `signals` reports second signals; it and `screen` outlive the supervisor.
  Supervisor(Options options, StopSignals& signals, Screen& screen);

  // Until all processes have ended. An error means that one could not be started: the others are
  // killed.
  Status Run();

  // After Run: how it ended, the last JSON line of shard 0, and how often something was started
  // again.
  Status verdict() const { return Judge(failures_, ended_, stop_); }
  const std::string& newest() const { return newest_; }
  uint32_t restarts() const { return restarts_; }

 private:
  struct Child {
    Member member;
    std::unique_ptr<Process> process;
    bool running = false;
    bool told_to_end = false;  // by a signal of ours, so it may end as it will
    std::optional<Time> restart_at;
  };

  Status Start(Child* child, bool again);
  void Wait();
  void ReadProgress();
  void OnNews(const std::string& line);
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
  std::vector<Failure> failures_;  // since the job last went on after one
  std::optional<setup::News> ended_;
  bool started_ = false;  // all workers were there once
  bool gave_up_ = false;  // we ended the job ourselves: what shard 0 says then is no news
  StopSignal stop_;
  int stops_ = 0;
  uint32_t restarts_ = 0;
  uint64_t rounds_ = 0;  // of the newest progress
  Time lost_at_{};       // the newest failure or restart
  Time grace_{};         // of the newest loss
  std::optional<Time> end_at_, kill_at_;
};

}  // namespace tern::tools
