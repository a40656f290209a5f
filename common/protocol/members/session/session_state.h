// What the parts of a worker's session share: its phase, who it is, what it holds, and what it has
// heard of the job.
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
  std::vector<uint32_t> data_lanes;  // by shard
  std::vector<std::string> servers;  // by shard, for messages
  pb::Hello hello;                   // job, digests, host, pid
  uint64_t credit_bytes = 16 << 20;
  uint64_t max_state_bytes = 0;
  uint32_t piece_bytes = 256 << 10;
  Timings timings;
  bool unsolicited = false;  // as in Exchange: with a quorum, and under shrink
  std::function<bool(const Cell&, LaneRef)> in_plan;  // as in Exchange
  bool shrink = false;                                // on_worker_loss
  Saved saved;                                        // on this worker's disk
  bool keeps_own = false;                             // as in Hello
};

enum class SessionPhase : uint8_t { kJoining, kFetching, kInstalling, kRunning, kLeaving, kEnded };

struct SessionState {
  // What this worker has: nothing; what a server's loss made void (until it has state again, its
  // owner's end of the job does not count); the state after exchange.applied().
  enum class Has : uint8_t { kNothing, kVoid, kState };
  // Where shard 0's Welcome says that a fresh worker's state comes from; neither: another worker.
  struct Origin {
    std::optional<uint64_t> begin;         // the servers: it is after this round
    std::optional<pb::Checkpoint> resume;  // this checkpoint
  };

  explicit SessionState(SessionOptions given);
  SessionState(const SessionState&) = delete;  // the links ask it what to say
  SessionState& operator=(const SessionState&) = delete;

  // The only way from phase to phase. False, and nothing changes, where the drawing has no arrow.
  bool Become(SessionPhase next);
  SessionPhase phase() const { return phase_; }
  bool ended() const { return phase_ == SessionPhase::kEnded; }
  bool leaving() const { return phase_ == SessionPhase::kLeaving; }
  bool has_state() const { return has == Has::kState; }
  // It leaves with an error: it goes whatever the others do.
  bool failed() const { return leaving() && !leave_status.ok(); }
  Message MakeHello(LaneRef lane) const;

  // Holds after every event: who runs has state, who fetches or installs it has none, and heard a
  // Welcome of shard 0; who joins has a lane that is not up; and what holds of the links.
  Status Check() const;

  SessionOptions options;
  uint64_t incarnation = 0;
  Exchange exchange;
  Links links;
  std::optional<Origin> origin;  // once shard 0 has welcomed it
  Has has = Has::kNothing;
  uint64_t epoch = 0;  // the newest that shard 0 admitted it in; 0: none
  uint64_t run = 0;    // of the job; 0: not known
  Time joining_since{};
  uint64_t stop_after = 0;     // the job's last round; 0: not decided, as far as it knows
  std::vector<uint32_t> gone;  // ranks that the job goes on without, from shard 0's pulses
  Status stop;                 // of the signal that asked for the end of the job; ok: none did
  Time stop_at{};
  Status leave_status;  // while it leaves

 private:
  friend class SessionPeer;  // of the tests

  SessionPhase phase_ = SessionPhase::kJoining;
};

// Sends what the exchange has to send.
void EmitOutgoing(std::vector<Exchange::Outgoing> outgoing, SessionActions* out);

}  // namespace tern::protocol
