// Who may have a rank or the place of a shard: shard 0's answers to hellos.
//
// An incarnation that was lost or replaced can come back only as a new one (Refuse: rejoin), and
// only while no other process has its rank.
#pragma once

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/gathering.h"
#include "common/protocol/members/shard0/going_back.h"
#include "common/protocol/members/shard0/job_state.h"
#include "common/protocol/members/shard0/liveness.h"
#include "common/protocol/members/shard0/membership.h"

namespace tern::protocol {

// Adds workers and shards to the roster.
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
  void OnHello(Peer from, const pb::Hello& said, Time now, ControlActions* out);

 private:
  void OnWorkerHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  void OnShardHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  // Whether the hello fits the job's ranks and steps; answers it if not.
  bool FitsTheJob(Peer from, const pb::Hello& hello, ControlActions* out) const;
  // Whether a hello may have the shard's place; answers it if not.
  bool MayTakePlace(Roster::Shard* place, Peer from, const pb::Hello& hello, Time now,
                    ControlActions* out) const;
  // Whether a hello of another incarnation may have the rank; answers it if not.
  bool MayTake(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
               ControlActions* out) const;
  // Answers a hello that asks for the rank of a worker that is there.
  void Refuse(Roster::Worker* holder, Peer from, const pb::Hello& hello, Time now,
              ControlActions* out) const;
  void Admit(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
             ControlActions* out);
  // Gives the worker's rank to the process of the hello.
  void Take(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now);

  JobState& job_;
  Membership& membership_;
  GoingBack& going_back_;
  Gathering& gathering_;
  Liveness& liveness_;
};

}  // namespace tern::protocol
