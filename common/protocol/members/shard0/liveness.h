// How shard 0 finds workers and shards that are silent or hang, and what it does when a worker is
// lost.
//
//   a rank: absent --Hello--> present --silent 1.5 s--> suspect --silent 3 s--> lost
//                              ^   ^ |                   | heard               ^ |
//                              |   +-|-------------------+                     | |
//                              |     +--connection closed for 1 s (2 s)--------+ |
//                              +--- `wait`, `shrink`: a new incarnation says hello
//
// (1.5 s and 3 s are the defaults of suspect_after and dead_after.) A killed process closes its
// connections at once, so it is suspect at once; but the network may close a connection, too. Then
// the worker has one second to connect again; under `fail` and `shrink`, where a loss cannot be
// undone, two, or one if a new process has asked for the rank (ReconnectTimeout).
//
// What happens when a worker is lost depends on faults.on_worker_loss:
//
//   fail    the job ends
//   wait    the other workers wait. The worker comes back with its state, or a new process takes
//           its rank and gets State (all that a worker needs to continue) from another worker
//   shrink  the rank stops being a member. The other workers continue if there are at least
//           `workers.min` of them. A new process that takes the rank gets State from another
//           worker. The job ends when all members are done
//
// A worker whose compute thread hangs is lost as well, and so is a worker that leaves with an
// error.
//
// If shard 0 hears none of the workers that hold the state of the job, its own network link may be
// down. Under `wait` and `shrink`, shard 0 then waits for these workers for up to `wait_timeout`
// (`is_awaited`). Workers that are heard again in that time continue. After that time the job ends
// under `wait`, and the silent workers are lost under `shrink`.
#pragma once

#include <cstdint>
#include <string>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/ending.h"
#include "common/protocol/members/shard0/going_back.h"
#include "common/protocol/members/shard0/job_state.h"
#include "common/protocol/members/shard0/membership.h"
#include "common/protocol/members/shard0/stragglers.h"

namespace tern::protocol {

// A part of the Coordinator. It changes the presence of workers in the roster, and the times at
// which workers and shards were heard.
class Liveness {
 public:
  Liveness(JobState* job, Ending* ending, Membership* membership, GoingBack* going_back)
      : job_(*job),
        ending_(*ending),
        membership_(*membership),
        going_back_(*going_back),
        stragglers_(job->options.workers) {}

  void Start(Time now);
  // Call for every message of a member: records that shard 0 has heard the member.
  void Hear(Roster::Worker* worker, Time now);
  // Handles a heartbeat of a member that is not lost.
  void OnHeartbeat(Roster::Worker* worker, const pb::Heartbeat& beat, Time now,
                   ControlActions* out);
  // Another incarnation asks for the rank of a live worker: sends a pulse, the answer to which
  // shows that the worker is alive (Worker::Rival).
  void OnRival(Time now, ControlActions* out);
  // Handles the pulse mark in a heartbeat or a hello of a worker. `is_idle`: whether the worker's
  // compute thread does not have to advance.
  void OnPulseMark(Roster::Worker* worker, uint64_t mark, bool is_idle, uint64_t progress) const;
  // The connection `peer` is closed. If its worker is not heard within ReconnectTimeout(), on
  // another connection, the worker is lost.
  void OnUnreachable(Peer peer, Time now);
  // Call when a new process takes this rank: forgets the step times of the previous process.
  // REQUIRES that `worker` still describes the previous process.
  void OnNewcomer(const Roster::Worker& worker, uint32_t rank, Time now);
  // Sends pulses (shard 0's heartbeats); finds workers and shards that are silent, and workers
  // whose compute thread hangs.
  void OnTimer(Time now, ControlActions* out);

  // Logs that a daemon (`who`) could not write checkpoints: the first failure, and each time that
  // their number has doubled since *num_logged.
  static void LogIfCheckpointsFail(const std::string& who, uint64_t num_failed,
                                   uint64_t* num_logged, ControlActions* out);

  struct Loss {
    std::string why;
    Code code = Code::kPeerLost;  // the job's exit code if it ends because of this loss
    bool has_left = false;        // the process has said that it leaves
  };
  // Handles the loss of this rank's worker, as faults.on_worker_loss says.
  void HandleLoss(uint32_t rank, const Loss& loss, Time now, ControlActions* out);

 private:
  // Whether all workers that hold the state have been silent for suspect_after, which may mean that
  // shard 0's own network link is down.
  bool HearsNobody(Time now) const;
  // Call when shard 0's network link is up again. Lets the silence of each worker that was heard
  // until the link went down, and the loss of its connection, begin at `now`, so that each has time
  // to be heard again.
  void ExcuseSilence(Time now);
  // Call for a silent worker while HearsNobody(). Waits for that worker for up to wait_timeout.
  void WaitForSilentWorker(uint32_t rank, Time now, ControlActions* out);
  // For a job with `shrink`: the job continues without the lost worker `rank`, goes back to a
  // checkpoint, or ends with `code`. `what` describes the loss for the log.
  void ContinueWithout(uint32_t rank, const std::string& what, Code code, Time now,
                       ControlActions* out);
  void CheckSilence(uint32_t rank, Time now, ControlActions* out);
  void CheckShards(Time now, ControlActions* out);
  // Logs from time to time which workers and shards the job waits for.
  void LogWhoIsAwaited(Time now, ControlActions* out);
  void SendPulses(Time now, ControlActions* out);
  // Logs, once per 100 late rounds, that rounds close without this worker's contributions.
  void LogIfLate(uint32_t rank, ControlActions* out);
  // Where a worker is that has applied these rounds, for the log: "round 5" or, in a job without
  // rounds, "step 5".
  std::string PlaceOf(const Roster::Worker& worker, uint64_t applied) const;
  // How long a worker whose connection is closed has to connect again.
  Time ReconnectTimeout(const Roster::Worker& worker, Time now) const;
  // Whether the worker's connection has been closed for that time.
  bool IsDisconnected(const Roster::Worker& worker, Time now) const;

  JobState& job_;
  Ending& ending_;
  Membership& membership_;
  GoingBack& going_back_;
  Stragglers stragglers_;
  Time pulse_sent_at_{};
  Time awaited_logged_at_{};  // when nobody was awaited any more, or that was last logged
};

}  // namespace tern::protocol
