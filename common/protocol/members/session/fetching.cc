#include "common/protocol/members/session/fetching.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"

namespace tern::protocol {

Fetching::Fetching(SessionState* state, Heartbeats* heartbeats, Leaving* leaving)
    : state_(*state),
      heartbeats_(*heartbeats),
      leaving_(*leaving),
      giver_(state->incarnation, state->options.piece_bytes),
      taker_(state->options.max_state_bytes),
      ask_again_after_(state->options.timings.resend_after / 8) {}

void Fetching::AdvanceIfAllUp(Time now, SessionActions* out) {
  if (state_.phase() != SessionPhase::kJoining || !state_.links.AllUp()) return;
  if (state_.has_state()) return EmitReady(out);
  const SessionState::Origin& origin = *state_.origin;
  if (origin.resume.has_value()) {
    StartInstalling(SessionAction::Type::kResume, origin.resume->round(), out)->checkpoint =
        *origin.resume;
  } else if (origin.begin.has_value()) {
    StartInstalling(SessionAction::Type::kGoBack, *origin.begin, out);
  } else {
    state_.Become(SessionPhase::kFetching);
    LogNormal("fetching the state of the job from another worker", out);
    AskForState(now, out);
  }
}

SessionAction* Fetching::StartInstalling(SessionAction::Type type, uint64_t applied,
                                         SessionActions* out) {
  state_.Become(SessionPhase::kInstalling);
  state_.exchange.Restart(applied);
  out->push_back(MakeAction(type));
  out->back().applied = applied;
  if (state_.origin->others_resume.has_value())
    out->back().others_resume = state_.origin->others_resume;
  return &out->back();
}

void Fetching::EmitReady(SessionActions* out) {
  state_.Become(SessionPhase::kRunning);
  out->push_back(MakeAction(SessionAction::Type::kReady));
  out->back().applied = state_.exchange.applied();
  out->back().stop_after = state_.stop_after;
  out->back().checkpoint_after = state_.checkpoint_after;
  out->back().run = state_.run;
}

void Fetching::AskForState(Time now, SessionActions* out) {
  asked_at_ = now;
  out->push_back(MakeSend({0, 0}, taker_.Want(state_.options.rank, state_.incarnation)));
}

void Fetching::OnTimer(Time now, SessionActions* out) {
  if (state_.phase() != SessionPhase::kFetching || now - asked_at_ < ask_again_after_) return;
  ask_again_after_ = std::min(2 * ask_again_after_, state_.options.timings.resend_after);
  AskForState(now, out);
}

void Fetching::OnStatePiece(const pb::StatePiece& piece, const Bytes& payload, Time now,
                            SessionActions* out) {
  if (state_.phase() != SessionPhase::kFetching || piece.incarnation() != state_.incarnation)
    return;
  switch (taker_.OnPiece(piece, payload)) {
    case StateTaker::Progress::kIgnored:
      return;
    case StateTaker::Progress::kNext:
      return AskForState(now, out);
    case StateTaker::Progress::kTooLarge:
      return leaving_.LeaveWith(
          Status(Code::kMismatch, Cat("the state sent by another worker is larger than this "
                                      "model's, ",
                                      state_.options.max_state_bytes, " bytes")),
          out);
    case StateTaker::Progress::kComplete:
      break;
  }
  state_.stop_after = taker_.stop_after();
  state_.checkpoint_after = taker_.checkpoint_after();
  StartInstalling(SessionAction::Type::kInstall, taker_.applied(), out)->state = taker_.TakeState();
}

void Fetching::OnInstalled(uint64_t applied, Time now, SessionActions* out) {
  if (state_.phase() != SessionPhase::kInstalling || applied != state_.exchange.applied()) return;
  state_.state_held = SessionState::StateHeld::kState;
  EmitReady(out);
  heartbeats_.Send(now, out);
  // A hello tells the lanes (server sockets) what the worker has applied. They answer with the
  // outcomes (the workers' sums) of the rounds that have closed since.
  const SessionState::Origin& origin = *state_.origin;
  if (state_.options.is_elastic || origin.begin.has_value() || origin.resume.has_value())
    state_.links.GreetAllUp(now, out);
}

void Fetching::DropState() {
  if (state_.has_state()) state_.state_held = SessionState::StateHeld::kNothing;
  state_.stop_after = state_.checkpoint_after = 0;
  state_.exchange.Restart(state_.exchange.applied());
  giver_ = StateGiver(state_.incarnation, state_.options.piece_bytes);
}

void Fetching::ForgetFetched() { taker_ = StateTaker(state_.options.max_state_bytes); }

void Fetching::OnStateWant(const pb::StateWant& want, SessionActions* out) {
  if (!state_.has_state()) return;
  std::optional<Message> piece;
  if (giver_.OnWant(want, &piece)) out->push_back(MakeAction(SessionAction::Type::kSnapshot));
  if (piece) out->push_back(MakeSend({0, 0}, std::move(*piece)));
}

void Fetching::OnSnapshot(const Bytes& state, uint64_t applied, SessionActions* out) {
  if (!state_.has_state()) return;  // The state was discarded after the request.
  for (Message& piece :
       giver_.OnSnapshot(state, applied, state_.stop_after, state_.checkpoint_after))
    out->push_back(MakeSend({0, 0}, std::move(piece)));
}

Status Fetching::Check() const {
  TERN_HOLDS(state_.has_state() || giver_.num_snapshots() == 0, "session: has no state, and keeps ",
             giver_.num_snapshots(), " snapshots of it");
  return Ok();
}

}  // namespace tern::protocol
