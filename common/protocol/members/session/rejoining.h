// How a worker comes again as a new incarnation, because shard 0 gave it up or the job goes back.
//
// A worker that was given up while it was silent (Refuse: rejoin) says hello as a new incarnation
// and continues where it was, in any phase. Under `shrink` the others have gone on without it: it
// drops its state and joins again (kInstall and kReady are emitted again), unless it is leaving.
#pragma once

#include <cstdint>

#include "common/protocol/members/session/fetching.h"
#include "common/protocol/members/session/leaving.h"
#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

// Sets the phase kJoining, and a new incarnation.
class Rejoining {
 public:
  Rejoining(SessionState* state, Leaving* leaving, Fetching* fetching)
      : state_(*state), leaving_(*leaving), fetching_(*fetching) {}

  void Rejoin(Time now, SessionActions* out);
  void OnGoBack(const pb::GoBack& message, Time now, SessionActions* out);
  // If `floor` has passed what this worker has applied, others have taken its place: it ends or
  // (shrink) joins again, and true is returned.
  bool IsLeftBehind(uint64_t floor, Time now, SessionActions* out);

 private:
  void BeginAnew(Time now, SessionActions* out);  // as a new incarnation

  SessionState& state_;
  Leaving& leaving_;
  Fetching& fetching_;
};

}  // namespace tern::protocol
