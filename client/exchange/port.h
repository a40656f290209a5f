// The interface between the training threads and the net thread. Training knows nothing about
// sockets, shards or membership; another exchange (a ring, for example) would be another Port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/channel.h"
#include "common/base/status.h"
#include "common/protocol/rounds/exchange.h"
#include "common/protocol/rounds/forms.h"
#include "proto/wire.pb.h"

namespace tern::client {

// Events for the compute thread.

// Training may begin, or continue, with the round after `applied`.
struct ReadyToTrain {
  uint64_t applied = 0;
  uint64_t stop_after = 0;        // the job's last round if that is already decided, else 0
  uint64_t checkpoint_after = 0;  // the newest round of a checkpoint on request; 0: none
  uint64_t run = 0;               // the number that identifies this run of the job
};
// A server's answer: scalers (codecs' scale factors), a sum, weights, or figures (workers'
// metrics).
using Answer = protocol::Exchange::Delivery;
// Another worker needs this worker's State (all that a worker needs to continue): call
// Port::SendSnapshot.
struct SnapshotWanted {};
// The State after round `applied` has arrived: install it, then call Port::ReportInstalled.
struct StateArrived {
  Bytes state;
  uint64_t applied = 0;
  // If set: what this worker has of the run is of an earlier time, because the job now goes on from
  // this checkpoint, which was written when the job did not have this rank.
  std::optional<pb::Checkpoint> others_resume = std::nullopt;
};
// Load this checkpoint, then call Port::ReportInstalled.
struct ResumeWanted {
  pb::Checkpoint checkpoint;
};
// The job has gone back to round `applied`: discard all that came after that round, pull the
// servers' weights, then call Port::ReportInstalled.
struct WentBack {
  uint64_t applied = 0;
  std::optional<pb::Checkpoint> others_resume = std::nullopt;  // as in StateArrived
};
// A signal asked this worker to leave (faults.worker_signal: leave): finish the current step, then
// end with `status`. `at_once`: do not wait for others, either, because that lasted too long.
struct LeaveWanted {
  Status status;
  bool at_once = false;
};
// A foreign program has samples for the next step, or has finished (Compute::HasSamples). Not from
// the net thread.
struct SamplesReady {};
// The foreign program's state after round `applied`, for which Compute::AskForState asked. Not from
// the net thread either.
struct StateGiven {
  Bytes state;
  uint64_t applied = 0;
};
// The foreign program wants to save what Tern keeps of it (client/guest/client_state.h), between
// two steps. Not from the net thread.
struct SaveWanted {};
// The job is over for this worker, or has failed.
struct Ended {
  Status status;
};
using Event = std::variant<ReadyToTrain, Answer, SnapshotWanted, StateArrived, ResumeWanted,
                           WentBack, LeaveWanted, SamplesReady, StateGiven, SaveWanted, Ended>;
using Events = Channel<Event>;

// Calls from the training threads. Thread-safe; no call blocks.
class Port {
 public:
  virtual ~Port() = default;
  // Sends this worker's contribution to a cell (one reduction over the workers). The servers count
  // a contribution once, even if it is sent several times.
  virtual void Contribute(protocol::Cell cell, protocol::Contribution contribution) = 0;
  // Reports that this worker has applied the answers of `round`.
  virtual void ReportApplied(uint64_t round) = 0;
  // Hands over the State after round `applied`, which SnapshotWanted requested.
  virtual void SendSnapshot(Bytes state, uint64_t applied) = 0;
  // Replaces the list of the checkpoints from which this worker can resume.
  virtual void OfferCheckpoints(std::vector<pb::Checkpoint> checkpoints) = 0;
  // Reports that the weights and all other state after round `applied` are in place.
  virtual void ReportInstalled(uint64_t applied) = 0;
  // Reports that this worker has finished training with `status`. `figures`: the job's last
  // evaluation. `steps`: how many of the job's steps the final weights include; 0 in a job without
  // rounds.
  virtual void Finish(Status status, pb::Figures figures, uint64_t steps) = 0;
};

}  // namespace tern::client
