// The control plane of shard 0. It decides the membership, forwards State (all that a worker needs
// to continue) from one worker to another, and stops and ends the job. It consists of parts, and
// passes each message to the part that handles it:
//
//   job_state   the data that all parts share; the diagram of the phases is there
//   roster      the workers and shards of the job, and their states (a member of job_state)
//   ending      ends the job
//   membership  tells workers, shards and lanes (the state machines behind the sockets) who the
//               members are
//   going_back  tells all workers to say hello again when the state of the job is lost
//   gathering   waits for the workers of a job that does not run, and decides where the job begins
//   liveness    finds workers and shards that are silent or hang, and handles their loss
//   admission   answers hellos
//
// A part calls only parts above it in this list.
//
// A worker that leaves with an error that a restart would repeat (IsLasting) ends the job with that
// error. Exception: if faults.on_worker_loss is `shrink` and the error is that worker's bad data,
// the other workers continue.
//
// A worker's message is accepted only on the connection on which its hello was admitted
// (Roster::MemberOf).
//
// A worker that has sent Bye is done. Until all workers are done, the loss of a done worker matters
// like that of any other: other workers may need the state and outcomes that it keeps.
#pragma once

#include <cstdint>
#include <optional>
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
  void OnCheckpointRequest(ControlActions* out) override;
  void OnUnreachable(Peer peer, Time now) override;
  void OnRevoked(Peer peer, Time now, ControlActions* out) override;
  void OnFailure(const Status& status, Time now, ControlActions* out) override;
  bool IsPeerOfJob(Peer peer) const override;
  const RoundLane& lane() const override { return job_.lane; }
  // Checks what must hold after every event: kInternal, with the invariant that is broken, or ok.
  Status Check() const;

  // How many checkpoints the processes of all shards could not write, as far as this process knows.
  uint64_t FailedShardCheckpoints() const;

  using Worker = Roster::Worker;
  const std::vector<Worker>& workers() const { return job_.roster.workers; }
  bool running() const { return job_.running(); }
  bool ending() const { return job_.ending(); }
  // The whole state, for the job's status: shards, length in steps, phase.
  const JobState& job() const { return job_; }

 private:
  friend class CoordinatorPeer;  // Tests use it to make the state invalid.

  void Dispatch(Peer from, const Message& message, Time now, ControlActions* out);
  void OnHeartbeat(Peer from, const pb::Heartbeat& beat, Time now, ControlActions* out);
  void OnRoundMessage(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStateWant(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStatePiece(Peer from, const Message& message, ControlActions* out);
  void OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnFailedWorker(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnShardPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out);
  void OnShardAbort(Peer from, const pb::Abort& abort, Time now, ControlActions* out);

  std::optional<Time> failed_since_;  // when OnFailure was first called
  JobState job_;
  Ending ending_{&job_};
  Membership membership_{&job_};
  GoingBack going_back_{&job_, &ending_};
  Gathering gathering_{&job_, &ending_, &membership_, &going_back_};
  Liveness liveness_{&job_, &ending_, &membership_, &going_back_};
  Admission admission_{&job_, &membership_, &going_back_, &gathering_, &liveness_};
};

}  // namespace tern::protocol
