// The interface between the training threads and the net thread. Training knows nothing about
// sockets, shards or membership; another exchange (a ring, for example) would be another Port.
#pragma once

#include <cstdint>
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

// What the compute thread hears.
struct Ready {  // the first step may begin, after round `applied`
  uint64_t applied = 0;
  uint64_t stop_after = 0;  // the job's last round, where that is decided already
  uint64_t run = 0;         // of the job
};
using Answer = protocol::Exchange::Delivery;  // a sum, or figures
struct SnapshotWanted {};
struct StateArrived {  // put it in place, then Port::Installed
  Bytes state;
  uint64_t applied = 0;
};
struct ResumeWanted {  // load it, then Port::Installed
  pb::Checkpoint checkpoint;
};
struct WentBack {  // give up all that came after round `applied`, pull what the servers held, then
                   // Port::Installed
  uint64_t applied = 0;
};
struct LeaveWanted {  // a signal, under faults.worker_signal: leave: finish the round, then go
  Status status;
};
struct Ended {  // the job is over for this worker, or something failed
  Status status;
};
using Event = std::variant<Ready, Answer, SnapshotWanted, StateArrived, ResumeWanted, WentBack,
                           LeaveWanted, Ended>;
using Events = Channel<Event>;

// What the training threads say. Thread-safe; nothing here waits.
class Port {
 public:
  virtual ~Port() = default;
  // Counted once a round, or a clock.
  virtual void Contribute(protocol::Cell cell, protocol::Contribution contribution) = 0;
  virtual void Applied(uint64_t round) = 0;
  virtual void Snapshot(Bytes state, uint64_t applied) = 0;
  // What this worker can go on from by now.
  virtual void Offer(std::vector<pb::Checkpoint> checkpoints) = 0;
  // The state after `applied` is in place.
  virtual void Installed(uint64_t applied) = 0;
  // The last word. `figures` are the job's last evaluation; `steps` are those of the job whose
  // result is in place, 0 in a job without rounds.
  virtual void Finish(Status status, pb::Figures figures, uint64_t steps) = 0;
};

}  // namespace tern::client
