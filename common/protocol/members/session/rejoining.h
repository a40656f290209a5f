// How a worker says hello as a new incarnation, because shard 0 removed it or the job goes back to
// a checkpoint.
//
// A worker that shard 0 removed while it was silent receives Refuse with `rejoin`, in any phase. It
// says hello as a new incarnation and continues where it was. Under `shrink` the other workers have
// continued without it; so, unless it is leaving, it discards its state and joins like a new
// worker: kInstall and kReady are emitted again.
#pragma once

#include <cstdint>

#include "common/protocol/members/session/fetching.h"
#include "common/protocol/members/session/leaving.h"
#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

// A part of Session. It alone moves the session to kJoining and changes its incarnation.
class Rejoining {
 public:
  Rejoining(SessionState* state, Leaving* leaving, Fetching* fetching)
      : state_(*state), leaving_(*leaving), fetching_(*fetching) {}

  void Rejoin(Time now, SessionActions* out);
  void OnGoBack(const pb::GoBack& message, Time now, SessionActions* out);
  // If `floor` has passed what this running worker has applied, another process has continued with
  // its rank. Then the session ends or, under `shrink`, joins again, and the result is true.
  bool IsLeftBehind(uint64_t floor, Time now, SessionActions* out);

 private:
  void StartNewIncarnation(Time now, SessionActions* out);

  SessionState& state_;
  Leaving& leaving_;
  Fetching& fetching_;
};

}  // namespace tern::protocol
