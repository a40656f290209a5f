#include "common/protocol/members/session.h"

#include <algorithm>
#include <utility>

#include "common/base/invariants.h"
#include "common/protocol/members/session_actions.h"

namespace tern::protocol {

namespace {

using Phase = Session::Phase;

constexpr const char* kPhases[] = {"joining", "fetching", "installing",
                                   "running", "leaving",  "ended"};

const char* NameOf(Phase phase) { return kPhases[static_cast<size_t>(phase)]; }

bool HasArrow(Phase from, Phase to) {
  switch (from) {
    case Phase::kJoining:
      return true;
    case Phase::kFetching:
      return to != Phase::kFetching && to != Phase::kRunning;
    case Phase::kInstalling:
      return to != Phase::kFetching && to != Phase::kInstalling;
    case Phase::kRunning:
    case Phase::kLeaving:
      return to == Phase::kJoining || to == Phase::kLeaving || to == Phase::kEnded;
    case Phase::kEnded:
      return false;
  }
  return false;
}

}  // namespace

bool Session::Become(Phase next) {
  const bool drawn = HasArrow(phase_, next);
  TERN_REQUIRES(drawn, "a session that is ", NameOf(phase_), " cannot become ", NameOf(next));
  if (drawn) phase_ = next;
  return drawn;
}

Session::Session(Options options)
    : options_(std::move(options)),
      exchange_({options_.rank, options_.incarnation, options_.credit_bytes,
                 options_.timings.resend_after, options_.unsolicited, options_.in_plan}),
      links_(
          options_.data_lanes, options_.servers, [this](LaneRef lane) { return MakeHello(lane); },
          &exchange_),
      giver_(options_.incarnation, options_.piece_bytes),
      taker_(options_.max_state_bytes) {}

void Session::Start(Time now, SessionActions* out) {
  const CheckedAfter checked(*this);
  started_at_ = now;
  for (uint32_t s = 0; s < links_.shards(); ++s) {
    links_.shard(s).heard_at = now;
    links_.Connect({s, 0}, 0, now, out);
  }
}

void Session::OnMessage(LaneRef lane, const Message& message, Time now, SessionActions* out) {
  const CheckedAfter checked(*this);
  if (phase_ == Phase::kEnded) return;
  if (lane.lane == 0) links_.shard(lane.shard).heard_at = now;
  switch (message.head.body_case()) {
    case pb::Envelope::kWelcome:
      return OnWelcome(lane, message.head.welcome(), now, out);
    case pb::Envelope::kRefuse:
      return OnRefuse(lane, message.head.refuse(), now, out);
    case pb::Envelope::kPulse:
      return OnPulse(lane.shard, message.head.pulse(), now, out);
    case pb::Envelope::kEcho:
      return round_trips_.Add(now - Time(message.head.echo().said_ns()),
                              options_.timings.server_return_timeout);
    case pb::Envelope::kStateWant:
      return OnStateWant(message.head.state_want(), out);
    case pb::Envelope::kStatePiece:
      return OnStatePiece(message.head.state_piece(), message.payload, now, out);
    case pb::Envelope::kGoBack:
      return OnGoBack(message.head.go_back(), now, out);
    case pb::Envelope::kAbort:
      return OnLastWord(ErrorFromPeer(message.head.abort().code(), message.head.abort().sentence()),
                        out);
    case pb::Envelope::kEnd: {
      Status status = StatusOf(message.head.end());
      if (status.ok() && phase_ != Phase::kLeaving) {
        status = Status(Code::kPeerLost, "shard 0 ended the job before this worker had finished");
      }
      return OnLastWord(status, out);
    }
    default:
      return OnRound(lane, message, now, out);
  }
}

void Session::OnRound(LaneRef lane, const Message& message, Time now, SessionActions* out) {
  Kind kind;
  if (const pb::Outcome* taken = AsHeldOutcome(message.head, &kind))
    return exchange_.OnHeldTaken(lane, kind, *taken);
  const pb::Outcome* outcome = AsOutcome(message.head, &kind);
  if (outcome == nullptr || outcome->form_case() == pb::Outcome::FORM_NOT_SET)
    return Log("dropped a message that servers do not send to workers", out);
  // What it needs of these it is sent again, once it has state.
  if (!has_state() && !(phase_ == Phase::kInstalling && outcome->has_pulled())) return;
  std::vector<Exchange::Outgoing> outgoing;
  for (auto& delivery :
       exchange_.OnOutcome(lane, kind, *outcome, message.payload, now, &outgoing)) {
    if (const uint64_t last = StopAfter(*outcome); last != 0) stop_after_ = last;
    out->push_back(Action(SessionAction::Type::kDeliver, lane));
    out->back().delivery = std::move(delivery);
  }
  Emit(std::move(outgoing), out);
}

void Session::OnLastWord(const Status& status, SessionActions* out) {
  Message answer;
  answer.head.mutable_end();
  out->push_back(SendOn({0, 0}, std::move(answer)));
  EndWith(leave_status_.ok() ? status : leave_status_, out);
}

void Session::AdvanceIfAllUp(Time now, SessionActions* out) {
  if (phase_ != Phase::kJoining || !links_.AllUp()) return;
  if (has_state()) {
    SendReady(out);
  } else if (origin_->resume.has_value()) {
    Become(Phase::kInstalling);
    exchange_.Restart(origin_->resume->round());
    out->push_back(Action(SessionAction::Type::kResume));
    out->back().applied = origin_->resume->round();
    out->back().checkpoint = *origin_->resume;
  } else if (origin_->begin.has_value()) {
    Become(Phase::kInstalling);
    exchange_.Restart(*origin_->begin);
    out->push_back(Action(SessionAction::Type::kGoBack));
    out->back().applied = *origin_->begin;
  } else {
    Become(Phase::kFetching);
    Log("fetching the state of the job from another worker", out);
    AskForState(now, out);
  }
}

void Session::SendReady(SessionActions* out) {
  Become(Phase::kRunning);
  out->push_back(Action(SessionAction::Type::kReady));
  out->back().applied = exchange_.applied();
  out->back().stop_after = stop_after_;
  out->back().run = run_;
}

void Session::AskForState(Time now, SessionActions* out) {
  asked_at_ = now;
  out->push_back(SendOn({0, 0}, taker_.Want(options_.rank, options_.incarnation)));
}

void Session::OnStatePiece(const pb::StatePiece& piece, const Bytes& payload, Time now,
                           SessionActions* out) {
  if (phase_ != Phase::kFetching || piece.incarnation() != options_.incarnation) return;
  switch (taker_.OnPiece(piece, payload)) {
    case StateTaker::Progress::kIgnored:
      return;
    case StateTaker::Progress::kNext:
      return AskForState(now, out);
    case StateTaker::Progress::kTooLarge:
      return LeaveWith(
          Status(Code::kMismatch, "the state sent by another worker is larger than this model's, " +
                                      std::to_string(options_.max_state_bytes) + " bytes"),
          out);
    case StateTaker::Progress::kComplete:
      break;
  }
  Become(Phase::kInstalling);
  stop_after_ = taker_.stop_after();
  exchange_.Restart(taker_.applied());
  out->push_back(Action(SessionAction::Type::kInstall));
  out->back().applied = taker_.applied();
  out->back().state = taker_.Take();
}

void Session::OnInstalled(uint64_t applied, Time now, SessionActions* out) {
  const CheckedAfter checked(*this);
  if (phase_ != Phase::kInstalling || applied != exchange_.applied()) return;
  has_ = Has::kState;
  SendReady(out);
  SendHeartbeats(now, out);
  // Now the lanes may know what it has: they send it what closed after that.
  const bool tells =
      options_.unsolicited || origin_->begin.has_value() || origin_->resume.has_value();
  if (tells) links_.GreetAllUp(now, out);
}

void Session::OnStateWant(const pb::StateWant& want, SessionActions* out) {
  if (!has_state()) return;
  std::optional<Message> piece;
  if (giver_.OnWant(want, &piece)) out->push_back(Action(SessionAction::Type::kSnapshot));
  if (piece) out->push_back(SendOn({0, 0}, std::move(*piece)));
}

void Session::OnSnapshot(Bytes state, uint64_t applied, Time, SessionActions* out) {
  const CheckedAfter checked(*this);
  if (!has_state()) return;  // it was dropped meanwhile
  for (Message& piece : giver_.OnSnapshot(state, applied, stop_after_))
    out->push_back(SendOn({0, 0}, std::move(piece)));
}

void Session::Contribute(const Cell& cell, LaneRef lane, Contribution contribution, Time now,
                         SessionActions* out) {
  const CheckedAfter checked(*this);
  if (!has_state() && !(phase_ == Phase::kInstalling && IsPull(contribution))) return;
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.Contribute(cell, lane, std::move(contribution), now, &outgoing);
  Emit(std::move(outgoing), out);
}

void Session::SetApplied(uint64_t applied) {
  const CheckedAfter checked(*this);
  if (has_state()) exchange_.SetApplied(applied);
}

void Session::SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters) {
  progress_ = progress;
  waiting_ = waiting;
  counters_ = counters;
}

void Session::Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
                     uint64_t steps, Time now, SessionActions* out) {
  const CheckedAfter checked(*this);
  if (phase_ == Phase::kEnded || (has_ == Has::kVoid && status.ok())) return;
  Become(Phase::kLeaving);
  leaving_since_ = now;
  leave_status_ = status;
  bye_.set_rank(options_.rank);
  bye_.set_incarnation(options_.incarnation);
  bye_.set_code(static_cast<uint32_t>(ExitCode(status)));
  bye_.set_sentence(status.message());
  *bye_.mutable_counters() = counters;
  *bye_.mutable_figures() = figures;
  bye_.set_steps(steps);
  SendBye(now, out);
}

void Session::Stop(const Status& status, Time now, SessionActions* out) {
  const CheckedAfter checked(*this);
  if (phase_ == Phase::kEnded || !stop_.ok()) return;
  if (phase_ == Phase::kLeaving && !leave_status_.ok()) return;  // it goes anyway
  stop_ = status;
  stop_at_ = now;
  Log("asking server shard 0 to stop the job", out);
  SendHeartbeats(now, out);
}

void Session::LeaveWith(const Status& status, SessionActions* out) {
  Message message;
  pb::Bye* bye = message.head.mutable_bye();
  bye->set_rank(options_.rank);
  bye->set_incarnation(options_.incarnation);
  bye->set_code(static_cast<uint32_t>(ExitCode(status)));
  bye->set_sentence(status.message());
  out->push_back(SendOn({0, 0}, std::move(message)));
  EndWith(status, out);
}

void Session::SendBye(Time now, SessionActions* out) {
  Message message;
  *message.head.mutable_bye() = bye_;
  bye_at_ = now;
  out->push_back(SendOn({0, 0}, std::move(message)));
}

void Session::OnTimer(Time now, SessionActions* out) {
  const CheckedAfter checked(*this);
  if (phase_ == Phase::kEnded) return;
  if (now - heartbeat_at_ >= options_.timings.heartbeat) SendHeartbeats(now, out);
  links_.GreetAgain(options_.timings.hello_retry, now, out);
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.OnTimer(now, &outgoing);
  Emit(std::move(outgoing), out);
  if (phase_ == Phase::kFetching && now - asked_at_ >= options_.timings.resend_after)
    AskForState(now, out);
  if (phase_ == Phase::kLeaving && now - bye_at_ >= options_.timings.heartbeat) SendBye(now, out);
  CheckSilence(now, out);
}

void Session::SendHeartbeats(Time now, SessionActions* out) {
  heartbeat_at_ = now;
  Message message;
  pb::Heartbeat* beat = message.head.mutable_heartbeat();
  beat->set_rank(options_.rank);
  beat->set_incarnation(options_.incarnation);
  if (has_state()) beat->set_applied(exchange_.applied());
  beat->set_progress(progress_);
  beat->set_said_ns(now.count());
  beat->set_waiting(waiting_ || phase_ != Phase::kRunning);
  // Before the job has begun, and where shard 0 does not let this worker in again for long, it
  // hears of a stop by a connection that is not up: it cannot end the job in order then, but at
  // once.
  const bool told =
      !stop_.ok() && (phase_ == Phase::kJoining || now - stop_at_ > options_.timings.dead_after);
  for (uint32_t s = links_.shards(); s-- > 0;) {
    if (s == 0) {  // the others have no use for them
      *beat->mutable_counters() = counters_;
      if (!stop_.ok()) beat->set_stop(static_cast<uint32_t>(ExitCode(stop_)));
    }
    if (links_.IsUp({s, 0}) || (s == 0 && told)) out->push_back(SendOn({s, 0}, message));
  }
}

void Session::RoundTrips::Add(Time trip, Time most) {
  if (trip < Time(0) || trip > most) return;  // not our word
  ++count;
  total += trip;
  longest = std::max(longest, trip);
}

void Session::EndWith(Status status, SessionActions* out) {
  if (!Become(Phase::kEnded)) return;
  out->push_back(Action(SessionAction::Type::kEnded));
  out->back().status = std::move(status);
}

void Session::Emit(std::vector<Exchange::Outgoing> outgoing, SessionActions* out) {
  for (Exchange::Outgoing& one : outgoing) out->push_back(SendOn(one.lane, std::move(one.message)));
}

Status Session::Check() const {
  const bool without = phase_ == Phase::kFetching || phase_ == Phase::kInstalling;
  TERN_HOLDS(phase_ != Phase::kRunning || has_state(), "session: running, and has no state");
  TERN_HOLDS(!without || !has_state(), "session: ", NameOf(phase_), ", and has state");
  TERN_HOLDS(!without || origin_.has_value(), "session: ", NameOf(phase_),
             ", and shard 0 has said no Welcome");
  TERN_HOLDS(has_state() || giver_.snapshots() == 0, "session: has no state, and keeps ",
             giver_.snapshots(), " snapshots of it");
  if (phase_ == Phase::kEnded) return Ok();
  TERN_HOLDS(phase_ != Phase::kLeaving || bye_.incarnation() == options_.incarnation,
             "session: says Bye as incarnation ", bye_.incarnation(), ", and is ",
             options_.incarnation);
  TERN_HOLDS(phase_ != Phase::kJoining || !links_.AllUp(),
             "session: joining, and all its links are up");
  return links_.Check();
}

}  // namespace tern::protocol
