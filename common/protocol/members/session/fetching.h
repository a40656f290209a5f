// How a worker comes to the state of the job: from another worker (State), from the servers or from
// its own checkpoint. And how it gives its state to others.
//
// A newcomer greets every lane before it asks for State: from then on no lane's floor can pass the
// State that it will get. After GoBack a worker fetches its state from the servers (its owner pulls
// it and calls OnInstalled), or from a checkpoint on its own disk (recovery.h). So may a job's
// first fetching.
#pragma once

#include <cstdint>

#include "common/base/bytes.h"
#include "common/protocol/members/session/heartbeats.h"
#include "common/protocol/members/session/leaving.h"
#include "common/protocol/members/session/session_state.h"
#include "common/protocol/members/session/state_transfer.h"

namespace tern::protocol {

// Sets the phases kFetching, kInstalling and kRunning, and `has`.
class Fetching {
 public:
  Fetching(SessionState* state, Heartbeats* heartbeats, Leaving* leaving);

  // Of a session that joins: the next phase, once all its links are up.
  void AdvanceIfAllUp(Time now, SessionActions* out);
  void OnStatePiece(const pb::StatePiece& piece, const Bytes& payload, Time now,
                    SessionActions* out);
  void OnInstalled(uint64_t applied, Time now, SessionActions* out);
  void OnTimer(Time now, SessionActions* out);  // asks again for a piece that has not come
  // This worker's state is no longer the job's.
  void DropState();
  // This worker comes as another incarnation: what it has fetched so far counts for nothing.
  void BeginAnew();

  void OnStateWant(const pb::StateWant& want, SessionActions* out);
  void OnSnapshot(const Bytes& state, uint64_t applied, SessionActions* out);
  void OnFloor(uint64_t floor) { giver_.OnFloor(floor); }

  // Only a worker with state keeps snapshots of it.
  Status Check() const;

 private:
  friend class SessionPeer;  // of the tests

  // What comes next is the owner's to install.
  SessionAction* Install(SessionAction::Type type, uint64_t applied, SessionActions* out);
  void AskForState(Time now, SessionActions* out);
  void SendReady(SessionActions* out);

  SessionState& state_;
  Heartbeats& heartbeats_;
  Leaving& leaving_;
  StateGiver giver_;
  StateTaker taker_;
  Time asked_at_{};
};

}  // namespace tern::protocol
