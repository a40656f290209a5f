// How shard 0 answers hellos: which process gets the rank of a worker, or the place of another
// shard.
//
// A worker whose incarnation was lost or replaced must come back as a new incarnation (Refuse with
// `rejoin`), and only while no other process has its rank.
#pragma once

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/gathering.h"
#include "common/protocol/members/shard0/going_back.h"
#include "common/protocol/members/shard0/job_state.h"
#include "common/protocol/members/shard0/liveness.h"
#include "common/protocol/members/shard0/membership.h"

namespace tern::protocol {

// A part of the Coordinator. It alone adds workers and shards to the roster.
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
  // Whether the rank exists and the sender counts as many steps as the other workers. If not,
  // refuses the hello.
  bool FitsTheJob(Peer from, const pb::Hello& hello, ControlActions* out) const;
  // Whether the sender may take the shard's place. If not, refuses the hello.
  bool MayTakeShardPlace(Roster::Shard* place, Peer from, const pb::Hello& hello, Time now,
                         ControlActions* out) const;
  // Whether the sender, which is not the incarnation that has the rank, may take it. If not,
  // refuses the hello.
  bool MayTakeRank(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
                   ControlActions* out) const;
  // Refuses a hello for a rank whose worker is live: finally if that worker has been heard since,
  // else for now.
  void Refuse(Roster::Worker* holder, Peer from, const pb::Hello& hello, Time now,
              ControlActions* out) const;
  // Admits the sender as the worker of its rank, and starts what follows from that.
  void Admit(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
             ControlActions* out);
  // Gives the rank to the process that sent the hello.
  void AssignRank(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now);

  JobState& job_;
  Membership& membership_;
  GoingBack& going_back_;
  Gathering& gathering_;
  Liveness& liveness_;
};

}  // namespace tern::protocol
