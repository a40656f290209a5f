// The data that the parts of a worker's session share: its phase, its identity, the state that it
// holds, and what it knows of the job.
//
//   kJoining --all lanes up, has state----------------------------------> kRunning
//    |    |                                                                 ^
//    |    +--all up, needs State--> kFetching --all pieces--> kInstalling --+ OnInstalled
//    |                                                          ^
//    +-------all up, gets state from servers or from its disk---+
//
// A lane is one socket of a server shard; it is up when the shard has answered the hello there.
// State is all that a worker needs to continue the job, as another worker sends it.
//
//   any before kLeaving:  Finish --> kLeaving --End--> kEnded
//                         Refuse(rejoin), if it has no state --> kJoining
//   any before kEnded:    GoBack --> kJoining, as a new incarnation without state (recovery.h)
//                         Abort, Refuse(leave), deadlines --> kEnded
//
//   kJoining     says hello on every lane, and waits for every lane's Welcome ("up")
//   kFetching    gets State from another worker, piece by piece
//   kInstalling  the owner of the session (the worker) installs the State that was fetched, pulls
//                the state from the servers, or loads it from the disk
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
  uint64_t incarnation = 0;  // a random number that identifies this worker; not 0
  // A random number that is in no message. Later incarnations of this worker are made from it, so
  // that who knows one of them cannot tell the next.
  uint64_t incarnation_secret = 0;
  std::vector<uint32_t> data_lanes;  // by shard: the number of data lanes
  std::vector<std::string> servers;  // addresses by shard, for log lines and errors
  pb::Hello hello;                   // the constant fields: job, digests, host, pid, ...
  Bytes tensor_table;                // the payload of hellos on control lanes; empty: none
  uint64_t credit_bytes = 16 << 20;  // most bytes of unanswered pushes on a lane
  uint64_t max_state_bytes = 0;      // the largest State that this worker accepts
  uint32_t piece_bytes = 256 << 10;  // the size of the pieces in which this worker sends State
  Timings timings;
  bool is_elastic = false;  // whether rounds may close without this worker's contribution
  // Whether the exchange plan has this cell (one reduction over the workers) at this lane.
  std::function<bool(const Cell&, LaneRef)> in_plan;
  bool shrink = false;  // whether faults.on_worker_loss is `shrink`: lost members are removed
  SavedCheckpoints saved_checkpoints;  // the checkpoints on this worker's disk
  bool keeps_own = false;        // whether it has private state that no other daemon can send it
  bool has_first_state = false;  // Hello.first_state
};

enum class SessionPhase : uint8_t { kJoining, kFetching, kInstalling, kRunning, kLeaving, kEnded };

struct SessionState {
  // Whether this worker holds the state of the job. kVoid: the worker held the state until the job
  // went back to a checkpoint; until it has state again, an ok Finish() is ignored. kState: the
  // worker holds the state after round exchange.applied().
  enum class StateHeld : uint8_t { kNothing, kVoid, kState };
  // From where a worker without state gets the state, as shard 0's Welcome says. If neither
  // `begin` nor `resume` is set: from another worker.
  struct Origin {
    std::optional<uint64_t> begin;         // from the servers: the parameters after this round
    std::optional<pb::Checkpoint> resume;  // from the worker's own disk: this checkpoint
    // Not an origin: Welcome.others_resume.
    std::optional<pb::Checkpoint> others_resume;
  };

  explicit SessionState(SessionOptions given);
  SessionState(const SessionState&) = delete;  // Not copyable: `links` has a pointer to `exchange`.
  SessionState& operator=(const SessionState&) = delete;

  // Changes the phase; no other function does. Returns false and changes nothing if the diagram has
  // no arrow from the present phase to `next`.
  bool Become(SessionPhase next);
  SessionPhase phase() const { return phase_; }
  bool ended() const { return phase_ == SessionPhase::kEnded; }
  bool leaving() const { return phase_ == SessionPhase::kLeaving; }
  bool has_state() const { return state_held == StateHeld::kState; }
  // Whether this worker is leaving with an error. Then its session ends even if the job goes on.
  bool failed() const { return leaving() && !leave_status.ok(); }
  Message MakeHello(LaneRef lane) const;

  // These invariants hold after every event. A running session has state. A fetching or installing
  // session has no state, and has received shard 0's Welcome. A joining session has a lane that is
  // not up. Links::Check() holds.
  Status Check() const;

  SessionOptions options;
  uint64_t incarnation = 0;
  Exchange exchange;
  Links links;
  std::optional<Origin> origin;  // set once shard 0 has welcomed this incarnation
  StateHeld state_held = StateHeld::kNothing;
  // The number of the newest membership in which shard 0 admitted this worker; 0: none.
  uint64_t epoch = 0;
  uint64_t run = 0;       // the number of the job's run (execution); 0: not known
  uint64_t progress = 0;  // grows whenever a thread that trains advances; see Heartbeat.progress
  Time joining_since{};
  uint64_t stop_after = 0;           // the job's last round; 0: not decided, or not known yet
  uint64_t checkpoint_after = 0;     // the newest OfRound.checkpoint_after; 0: none
  uint64_t checkpoint_requests = 0;  // how often this process was asked for a checkpoint
  uint64_t pulse_mark = 0;           // Pulse.mark of shard 0's newest pulse; 0: none yet
  // Ranks without which the job continues, from shard 0's heartbeats.
  std::vector<uint32_t> absent_ranks;
  Status stop_status;   // names the stop signal that this process received; ok: none
  Time stop_at{};       // when that signal came
  Status leave_status;  // the status given to Finish()

 private:
  friend class SessionPeer;  // gives tests access to private members

  SessionPhase phase_ = SessionPhase::kJoining;
};

// Appends a kSend action for each message of the exchange.
void EmitOutgoing(std::vector<Exchange::Outgoing> outgoing, SessionActions* out);

}  // namespace tern::protocol
