// The state of the job as shard 0 knows it, which the parts of the Coordinator share.
//
//   phase       becomes     when
//   kGathering  kRunning    RunIfGathered: no required worker is missing
//               kResuming   the hellos say that the job had begun, and no worker holds its state
//   kResuming   kCalling    CallWorkers: live workers are told to say hello again
//               kAsking     no worker has to say hello again
//   kCalling    kAsking     all workers have said hello again
//   kAsking     kRunning    the shards have answered, and the checkpoint is chosen
//   kRunning    kCalling    GoingBack::GoBack is called
//               kEnding     EndIfAllDone: all workers have sent Bye
//   any         kEnding     Ending::Abort is called
//
//   kGathering  the job starts, or shard 0 has restarted; the workers say hello
//   kResuming   the job had begun, no worker holds its state, and no worker has been told yet to
//               say hello again
//   kCalling    every live worker that was ever admitted has been told to say hello as a new
//               incarnation
//   kAsking     the shards that keep state are asked for the checkpoints on their disks
//   kRunning    all daemons know the members
//   kEnding     End or Abort is being sent (ending.h); the job does nothing else
//
// kResuming and kCalling also become kRunning if a worker that holds the state says hello.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/rate_limit.h"
#include "common/base/status.h"
#include "common/protocol/members/control.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/shard0/roster.h"
#include "common/protocol/rounds/round_lane.h"

namespace tern::protocol {

enum class JobPhase { kGathering, kResuming, kCalling, kAsking, kRunning, kEnding };

struct JobState {
  JobState(ControlOptions options, std::vector<CellSpec> cells);
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  // Changes the phase; no other function does. REQUIRES that the comment at the top of this file
  // allows the change from the present phase to `next`.
  void Become(JobPhase next);
  bool running() const { return phase_ == JobPhase::kRunning; }
  bool ending() const { return phase_ == JobPhase::kEnding; }
  bool asking() const { return phase_ == JobPhase::kAsking; }
  // Whether the job had begun, and now waits for its workers to say hello again.
  bool going_back() const {
    return phase_ == JobPhase::kResuming || phase_ == JobPhase::kCalling ||
           phase_ == JobPhase::kAsking;
  }
  // Whether the workers that must say hello again have been told so.
  bool has_called_workers() const {
    return phase_ == JobPhase::kCalling || phase_ == JobPhase::kAsking;
  }
  // Whether the job can continue although no live worker holds its state.
  bool CanGoBack() const {
    return options.begins_from_shards || options.can_resume || begin.checkpoint.has_value();
  }
  bool IsStopping() const { return stop_code != Code::kOk; }
  // Pulse.mark of the newest pulse.
  uint64_t PulseMark() const { return options.incarnation + num_pulses; }
  // The number of the pulse with this mark; 0 if this process has sent no such pulse.
  uint64_t PulseOfMark(uint64_t mark) const {
    const uint64_t number = mark - options.incarnation;
    return number <= num_pulses ? number : 0;
  }
  // The newest round whose checkpoints are not suspected of a difference between the replicas. If
  // the replicas differ: the newest round after which they agreed, or from which all began. After
  // all went back for that, still the round of that checkpoint, until they agree at a later round:
  // a fault may make all go back again before all have removed their later checkpoints.
  uint64_t NewestTrustedRound() const;
  // Logs that this worker came or went: ten such lines of a rank at once, then one a second, so
  // that a process that comes and goes all the time fills no disk.
  void LogComing(uint32_t rank, const std::string& text, Time now, ControlActions* out);
  void LogGoing(uint32_t rank, const std::string& text, Time now, ControlActions* out);
  // Checks what must hold after every event: kInternal, with the invariant that is broken, or ok.
  Status Check() const;

  const ControlOptions options;
  // The control lane: the state machine that reduces scalers (the codecs' scale factors) and
  // figures (the workers' metrics) over the workers.
  RoundLane lane;
  Roster roster;
  Code stop_code = Code::kOk;  // kInterrupted or kTerminated after a signal asked the job to stop
  Time gathering_since{};
  uint64_t num_pulses = 0;  // how many pulses (heartbeats) this process of shard 0 has sent
  BeginPoint begin;         // the point from which the job started or last continued
  // Identifies `begin`; grows each time that the job goes back (see Members.beginning in
  // wire.proto). Workers that have not loaded their state since are `joining`.
  uint64_t beginning = 0;
  // The checkpoint to which the job last went back because the workers' replicas differed.
  std::optional<pb::Checkpoint> repaired_from;
  // The newest round that any worker had applied before the job went back.
  uint64_t reached_round = 0;
  std::string why_going_back;  // why the job last went back, for the logs of the workers

 private:
  friend class CoordinatorPeer;  // Tests use it to make the state invalid.

  JobPhase phase_ = JobPhase::kGathering;
  std::vector<RateLimiter> coming_logs_, going_logs_;  // by rank
};

}  // namespace tern::protocol
