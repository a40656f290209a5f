// How a worker's session ends: with the job, after its Bye, or by itself. A worker that is done
// stays until shard 0 says End, because others may need what it holds.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/protocol/members/session/heartbeats.h"
#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

// Sets the phases kLeaving and kEnded, `stop` and `leave_status`.
class Leaving {
 public:
  Leaving(SessionState* state, Heartbeats* heartbeats) : state_(*state), heartbeats_(*heartbeats) {}

  // As of Session. REQUIRES a session that has not ended.
  void Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
              uint64_t steps, Time now, SessionActions* out);
  void Stop(const Status& status, Time now, SessionActions* out);
  // Repeats the Bye; ends where shard 0 has not answered for too long. REQUIRES as above.
  void OnTimer(Time now, SessionActions* out);
  // REQUIRES the phase kLeaving.
  void SendBye(Time now, SessionActions* out);
  // Shard 0 has said End or Abort: answers it, and ends.
  void OnLastWord(const Status& status, SessionActions* out);
  // Ends for a reason of its own, and tells shard 0, if that is there.
  void LeaveWith(const Status& status, SessionActions* out);

 private:
  void EndWith(Status status, SessionActions* out);

  SessionState& state_;
  Heartbeats& heartbeats_;
  pb::Bye bye_;
  Time bye_at_{}, leaving_since_{};
};

}  // namespace tern::protocol
