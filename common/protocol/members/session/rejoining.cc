#include "common/protocol/members/session/rejoining.h"

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::protocol {

namespace {

constexpr size_t kMaxWhyBytes = 400;  // how much of a server's sentence goes to the log

}  // namespace

void Rejoining::Rejoin(Time now, SessionActions* out) {
  Log("this worker was given up while it was silent; it says hello again as a new incarnation",
      out);
  if (state_.options.shrink && !state_.leaving()) fetching_.DropState();
  if (!state_.has_state() && !state_.leaving()) {
    // The worker must say hello on every lane (server socket) before it asks for State.
    state_.Become(SessionPhase::kJoining);
    state_.joining_since = now;
  }
  StartNewIncarnation(now, out);
}

void Rejoining::OnGoBack(const pb::GoBack& message, Time now, SessionActions* out) {
  if (message.incarnation() != state_.incarnation) return;
  if (state_.failed()) return;  // This worker is leaving with an error.
  Log("all go back to an earlier round: " + Printable(message.sentence(), kMaxWhyBytes), out);
  fetching_.DropState();
  state_.state_held = SessionState::StateHeld::kVoid;
  state_.Become(SessionPhase::kJoining);
  state_.joining_since = now;
  state_.epoch = 0;  // shard 0 has never admitted the new incarnation
  StartNewIncarnation(now, out);
}

void Rejoining::StartNewIncarnation(Time now, SessionActions* out) {
  do {
    state_.incarnation =
        Digest(Cat(state_.options.incarnation_secret, " then ", state_.incarnation));
  } while (state_.incarnation == 0);
  state_.exchange.SetIncarnation(state_.incarnation);
  state_.origin.reset();
  fetching_.ForgetFetched();
  state_.links.ReconnectAll(now, out);
}

bool Rejoining::HandleIfLeftBehind(uint64_t floor, Time now, SessionActions* out) {
  const uint64_t applied = state_.exchange.applied();
  if (state_.phase() != SessionPhase::kRunning || floor <= applied) return false;
  if (state_.options.shrink) {
    Rejoin(now, out);
    return true;
  }
  leaving_.LeaveWith(
      Status(Code::kPeerLost, Cat("all workers have applied round ", floor, ", but this one only ",
                                  applied, ": its rank went on without it; start it again")),
      out);
  return true;
}

}  // namespace tern::protocol
