// How a worker says hello as a new incarnation, because shard 0 removed it or the job goes back to
// a checkpoint. An incarnation is a random number that identifies a worker; messages with an old
// one are refused.
//
// A worker that shard 0 removed while the worker was silent receives Refuse with `rejoin`, in any
// phase. The worker says hello as a new incarnation and continues where it was. If
// faults.on_worker_loss is `shrink`, the other workers have continued without the worker. If the
// worker is not leaving, it then discards its state and joins like a new worker: the session emits
// kInstall and kReady again.
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
  // `floor`: the newest round that all members have applied. If this running worker has not applied
  // that round, it cannot continue, because the job has continued without it. Then the session ends
  // or, with `shrink`, joins again, and the result is true.
  bool HandleIfLeftBehind(uint64_t floor, Time now, SessionActions* out);

 private:
  void StartNewIncarnation(Time now, SessionActions* out);

  SessionState& state_;
  Leaving& leaving_;
  Fetching& fetching_;
};

}  // namespace tern::protocol
