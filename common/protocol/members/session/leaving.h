// How a worker's session ends: together with the job, after this worker's last message, Bye; or
// before the job ends, with an error. A worker that has finished stays until shard 0 sends End,
// because other workers may need the state and outcomes that it keeps.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/protocol/members/session/heartbeats.h"
#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

// A part of Session. It alone moves the session to kLeaving and kEnded, and sets `stop_status` and
// `leave_status`.
class Leaving {
 public:
  Leaving(SessionState* state, Heartbeats* heartbeats) : state_(*state), heartbeats_(*heartbeats) {}

  // Do what Session::Finish and Session::Stop promise. REQUIRE a session that has not ended.
  void Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
              uint64_t steps, Time now, SessionActions* out);
  void Stop(const Status& status, Time now, SessionActions* out);
  // Repeats the Bye when that is due. Ends the session if shard 0 has not answered for too long.
  // REQUIRES a session that has not ended.
  void OnTimer(Time now, SessionActions* out);
  // Sends the Bye, for the first time or again. REQUIRES the phase kLeaving.
  void SendBye(Time now, SessionActions* out);
  // Shard 0 has sent End or Abort: answers shard 0, and ends the session.
  void OnFarewell(const Status& status, SessionActions* out);
  // Shard 0 has ended the job.
  void OnEnd(const pb::End& end, SessionActions* out);
  // Ends the session with this worker's own error, and tells shard 0 once; the message may be lost.
  // If shard 0 ends the job for that, it need not wait for this worker, which answers beforehand.
  void LeaveWith(const Status& status, SessionActions* out);

 private:
  // Tells shard 0 that its last message, End or Abort, need not be repeated.
  void AnswerFarewell(SessionActions* out) const;
  void EndWith(Status status, SessionActions* out);

  SessionState& state_;
  Heartbeats& heartbeats_;
  pb::Bye bye_;
  Time bye_at_{}, leaving_since_{};
};

}  // namespace tern::protocol
