// The data that the parts of a worker's session share: its phase, its identity, the state that it
// holds, and what it knows of the job.
//
//   kJoining --all lanes up, has state----------------------------------> kRunning
//    |    |                                                                 ^
//    |    +--all up, needs State--> kFetching --all pieces--> kInstalling --+ OnInstalled
//    |                                                          ^
//    +-------all up, its state is with servers or on its disk---+
//
//   any before kLeaving:  Finish --> kLeaving --End--> kEnded
//                         Refuse(rejoin), without state --> kJoining
//   any before kEnded:    GoBack --> kJoining, a new incarnation without state (recovery.h)
//                         Abort, Refuse(leave), deadlines --> kEnded
//
//   kJoining     says hello on every lane, and waits for their Welcomes ("up")
//   kFetching    gets State from another worker, piece by piece
//   kInstalling  the owner installs the state that came, or pulls or loads it
//   kRunning     takes part in rounds (or, without rounds, in exchanges)
//   kLeaving     has sent Bye
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/session/links.h"
#include "common/protocol/members/session/session_actions.h"
#include "common/protocol/members/timings.h"
#include "common/protocol/rounds/exchange.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct SessionOptions {
  uint32_t rank = 0;
  uint64_t incarnation = 0;          // random, not 0
  std::vector<uint32_t> data_lanes;  // their number, by shard
  std::vector<std::string> servers;  // addresses by shard, for log lines and errors
  pb::Hello hello;                   // the constant fields: job, digests, host, pid, ...
  uint64_t credit_bytes = 16 << 20;  // most bytes of unanswered pushes on a lane
  uint64_t max_state_bytes = 0;      // the largest State that this worker accepts
  uint32_t piece_bytes = 256 << 10;  // the size of the pieces in which it sends its State
  Timings timings;
  bool unsolicited = false;                           // rounds may close without this worker
  std::function<bool(const Cell&, LaneRef)> in_plan;  // whether the plan has the cell at the lane
  bool shrink = false;                                // faults.on_worker_loss: shrink
  Saved saved;                                        // the checkpoints on this worker's disk
  bool keeps_own = false;                             // has state that no other daemon can send it
};

enum class SessionPhase : uint8_t { kJoining, kFetching, kInstalling, kRunning, kLeaving, kEnded };

struct SessionState {
  // Whether this worker holds the state of the job. kVoid: it did, until the job went back to a
  // checkpoint; until it has state again, an ok Finish() is ignored. kState: it holds the state
  // after round exchange.applied().
  enum class Has : uint8_t { kNothing, kVoid, kState };
  // Where a worker without state gets it, as shard 0's Welcome says. If neither is set: from
  // another worker.
  struct Origin {
    std::optional<uint64_t> begin;         // pull the parameters after this round from the servers
    std::optional<pb::Checkpoint> resume;  // load this checkpoint from its own disk
  };

  explicit SessionState(SessionOptions given);
  SessionState(const SessionState&) = delete;  // its links keep a pointer to its exchange
  SessionState& operator=(const SessionState&) = delete;

  // Every change of the phase goes through here. Returns false, without a change, if the diagram
  // has no such arrow.
  bool Become(SessionPhase next);
  SessionPhase phase() const { return phase_; }
  bool ended() const { return phase_ == SessionPhase::kEnded; }
  bool leaving() const { return phase_ == SessionPhase::kLeaving; }
  bool has_state() const { return has == Has::kState; }
  // Whether it is leaving with an error. Then it ends whatever the other workers do.
  bool failed() const { return leaving() && !leave_status.ok(); }
  Message MakeHello(LaneRef lane) const;

  // Holds after every event: a running session has state; a fetching or installing one has none,
  // and has received shard 0's Welcome; a joining one has a lane that is not up; and Links::Check()
  // holds.
  Status Check() const;

  SessionOptions options;
  uint64_t incarnation = 0;
  Exchange exchange;
  Links links;
  std::optional<Origin> origin;  // set once shard 0 has welcomed this incarnation
  Has has = Has::kNothing;
  uint64_t epoch = 0;  // the newest epoch in which shard 0 admitted this worker; 0: none
  uint64_t run = 0;    // the job's run; 0: not known
  Time joining_since{};
  uint64_t stop_after = 0;     // the job's last round; 0: not decided, or not known yet
  std::vector<uint32_t> gone;  // ranks without which the job continues, from shard 0's pulses
  Status stop;                 // names the signal to stop that this process received; ok: none
  Time stop_at{};
  Status leave_status;  // the status given to Finish()

 private:
  friend class SessionPeer;  // of the tests

  SessionPhase phase_ = SessionPhase::kJoining;
};

// Appends a kSend action for each message of the exchange.
void EmitOutgoing(std::vector<Exchange::Outgoing> outgoing, SessionActions* out);

}  // namespace tern::protocol
