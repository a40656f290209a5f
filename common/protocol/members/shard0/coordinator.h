// Shard 0: decides membership, passes State on, stops and ends the job. What it does is in its
// parts; it takes messages apart, and each goes to the part that decides:
//
//   job_state   where the job stands (its phases are drawn there); roster: who belongs to it
//   ending      how the job ends
//   membership  what all are told of the members
//   going_back  a running job whose state is lost calls its workers anew
//   gathering   the workers of a job that does not run come together and find where to begin
//   liveness    who is silent, hangs or is lost, and what follows
//   admission   whose hello is answered with a rank
//
// Each part calls those above it alone.
//
// A worker that ends with an error that a restart would repeat (IsLasting) ends the job with that
// error, except under `shrink` where only that worker's data are bad: the others continue.
//
// A worker's message counts only on the connection of the worker's admitted hello (MemberOf).
//
// A worker that has said Bye is done. Until all are done it is watched and lost like any other,
// because the others may need what it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/admission.h"
#include "common/protocol/members/shard0/ending.h"
#include "common/protocol/members/shard0/gathering.h"
#include "common/protocol/members/shard0/going_back.h"
#include "common/protocol/members/shard0/job_state.h"
#include "common/protocol/members/shard0/liveness.h"
#include "common/protocol/members/shard0/membership.h"

namespace tern::protocol {

class Coordinator : public Control {
 public:
  Coordinator(ControlOptions options, std::vector<CellSpec> cells);

  void Start(Time now, ControlActions* out) override;
  void OnMessage(Peer from, const Message& message, Time now, ControlActions* out) override;
  void OnTimer(Time now, ControlActions* out) override;
  void OnStop(Code code, Time now, ControlActions* out) override;
  void OnFailure(const Status& status, Time now, ControlActions* out) override;
  const RoundLane& lane() const override { return job_.lane; }
  // kInternal names the invariant that is broken.
  Status Check() const;

  using Worker = Roster::Worker;
  const std::vector<Worker>& workers() const { return job_.roster.workers; }
  bool running() const { return job_.running(); }
  bool ending() const { return job_.ending(); }
  uint64_t steps() const { return job_.roster.steps; }
  // Another value: all have gone back to a checkpoint, or begun from one. Workers that have yet to
  // take it up are `joining`.
  uint64_t beginning() const { return job_.beginning; }

 private:
  friend class CoordinatorPeer;  // of tests: plants faults

  void OnHeartbeat(Peer from, const pb::Heartbeat& beat, Time now, ControlActions* out);
  void OnRound(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStateWant(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStatePiece(Peer from, const Message& message, ControlActions* out);
  void OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnFailedWorker(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnShardPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out);
  void OnShardAbort(Peer from, const pb::Abort& abort, Time now, ControlActions* out);

  JobState job_;
  Ending ending_{&job_};
  Membership membership_{&job_};
  GoingBack going_back_{&job_, &ending_};
  Gathering gathering_{&job_, &ending_, &membership_, &going_back_};
  Liveness liveness_{&job_, &ending_, &membership_, &going_back_};
  Admission admission_{&job_, &membership_, &going_back_, &gathering_, &liveness_};
};

}  // namespace tern::protocol
