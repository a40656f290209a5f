// How a worker gets the state of the job: from another worker (as State messages), from the
// servers, or from its own checkpoint; and how it sends its state to other workers.
//
// A new worker says hello on every lane (server socket) before it asks for State. A lane's floor is
// the newest round that all members have applied; the lane drops the outcomes of rounds up to the
// floor. After the hello, no lane's floor can pass the round of the State that the worker will get,
// so no lane drops an outcome that the worker still needs. After GoBack (shard 0's order to return
// to a checkpoint), and at the start of a job that continues, a worker gets its state from the
// servers or from its own checkpoint (recovery.h): its owner pulls or loads the state, and then
// calls OnInstalled.
#pragma once

#include <cstdint>

#include "common/base/bytes.h"
#include "common/protocol/members/session/heartbeats.h"
#include "common/protocol/members/session/leaving.h"
#include "common/protocol/members/session/session_state.h"
#include "common/protocol/members/session/state_transfer.h"

namespace tern::protocol {

// A part of Session. It alone moves the session to kFetching, kInstalling and kRunning. It also
// sets SessionState::state_held.
class Fetching {
 public:
  Fetching(SessionState* state, Heartbeats* heartbeats, Leaving* leaving);

  // If the session is joining and all its links are up: moves it to the next phase.
  void AdvanceIfAllUp(Time now, SessionActions* out);
  void OnStatePiece(const pb::StatePiece& piece, const Bytes& payload, Time now,
                    SessionActions* out);
  void OnInstalled(uint64_t applied, Time now, SessionActions* out);
  void OnTimer(Time now, SessionActions* out);  // requests an overdue piece again
  // Discards this worker's state, because the job goes back or continues without this worker.
  void DropState();
  // Discards the pieces fetched so far, because this worker has a new incarnation.
  void ForgetFetched();

  // Another worker asks for this worker's state.
  void OnStateWant(const pb::StateWant& want, SessionActions* out);
  void OnSnapshot(const Bytes& state, uint64_t applied, SessionActions* out);
  void OnFloor(uint64_t floor) { giver_.OnFloor(floor); }

  // This invariant holds after every event: only a worker with state keeps snapshots of its state.
  Status Check() const;

 private:
  friend class SessionPeer;  // gives tests access to private members

  // Moves to kInstalling, and emits an action of `type` that makes the owner install the state
  // after `applied`. Returns the action; the caller sets its other fields.
  SessionAction* StartInstalling(SessionAction::Type type, uint64_t applied, SessionActions* out);
  void AskForState(Time now, SessionActions* out);
  void EmitReady(SessionActions* out);

  SessionState& state_;
  Heartbeats& heartbeats_;
  Leaving& leaving_;
  StateGiver giver_;
  StateTaker taker_;
  Time asked_at_{};
  // How long to wait for a piece before asking for it again. Doubles with each repetition, up to
  // Timings::resend_after: a lost piece costs little, and a slow network carries few twice.
  Time ask_again_after_;
};

}  // namespace tern::protocol
