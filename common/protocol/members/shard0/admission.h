// How shard 0 answers hellos. It decides which process is the worker of a rank, and which process
// is the server shard of a number (has the shard's place).
//
// A worker whose incarnation was lost or replaced must come back as a new incarnation (Refuse with
// `rejoin`), and only while no other process has its rank.
#pragma once

#include "common/base/rate_limit.h"
#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/gathering.h"
#include "common/protocol/members/shard0/going_back.h"
#include "common/protocol/members/shard0/job_state.h"
#include "common/protocol/members/shard0/liveness.h"
#include "common/protocol/members/shard0/membership.h"

namespace tern::protocol {

// A part of the Coordinator. It alone gives processes the ranks and the shards' places.
class Admission {
 public:
  Admission(JobState* job, Membership* membership, GoingBack* going_back, Gathering* gathering,
            Liveness* liveness)
      : job_(*job),
        membership_(*membership),
        going_back_(*going_back),
        gathering_(*gathering),
        liveness_(*liveness) {}

  // REQUIRES a job that is not ending.
  void OnHello(Peer from, const pb::Hello& received, Time now, ControlActions* out);

 private:
  void OnWorkerHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  void OnShardHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  // Whether the rank exists, and the sender counts as many steps as the job and the other workers,
  // and has the same data as they.
  // If not, refuses the hello.
  bool FitsTheJob(Peer from, const pb::Hello& hello, ControlActions* out) const;
  // Whether the sender may become this shard. If not, refuses the hello.
  bool MayTakeShardPlace(Roster::Shard* place, Peer from, const pb::Hello& hello, Time now,
                         ControlActions* out) const;
  // Whether the sender may take the rank, which another incarnation or none has. If not, refuses
  // the hello.
  bool MayTakeRank(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
                   ControlActions* out);
  // Refuses a hello for a rank that the live worker `holder` has. The refusal is final if `holder`
  // is known to have been alive, and not to hang, after the sender first asked for the rank; else
  // the sender is told to retry.
  void Refuse(Roster::Worker* holder, Peer from, const pb::Hello& hello, Time now,
              ControlActions* out);
  // Admits the sender as the worker of its rank. If that completes the workers, the job runs; if
  // the state of the job is lost, the job goes back to a checkpoint or ends.
  void Admit(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
             ControlActions* out);
  // Gives the rank to the process that sent the hello.
  void AssignRank(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now);

  JobState& job_;
  Membership& membership_;
  GoingBack& going_back_;
  Gathering& gathering_;
  Liveness& liveness_;
  // Of log lines about hellos that do not fit, and about those for a rank that is taken.
  RateLimiter misfit_log_{1, std::chrono::seconds(1)}, rival_log_{1, std::chrono::seconds(1)};
};

}  // namespace tern::protocol
