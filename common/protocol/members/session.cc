#include "common/protocol/members/session.h"

#include <algorithm>
#include <utility>

#include "common/protocol/members/session_actions.h"

namespace tern::protocol {

Session::Session(Options options)
    : options_(std::move(options)),
      exchange_({options_.rank, options_.incarnation, options_.credit_bytes,
                 options_.timings.resend_after, options_.unsolicited, options_.in_plan}),
      shards_(options_.data_lanes.size()),
      giver_(options_.incarnation, options_.piece_bytes),
      taker_(options_.max_state_bytes) {
  for (uint32_t lanes : options_.data_lanes) links_.emplace_back(lanes + 1);
}

void Session::Start(Time now, SessionActions* out) {
  started_at_ = now;
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    shards_[s].heard_at = now;
    Connect({s, 0}, 0, now, out);
  }
}

void Session::OnMessage(LaneRef lane, const Message& message, Time now, SessionActions* out) {
  if (phase_ == Phase::kEnded) return;
  Shard& shard = shards_[lane.shard];
  if (lane.lane == 0) {
    shard.heard_at = now;
  }
  switch (message.head.body_case()) {
    case pb::Envelope::kWelcome:
      return OnWelcome(lane, message.head.welcome(), now, out);
    case pb::Envelope::kRefuse:
      return OnRefuse(lane, message.head.refuse(), now, out);
    case pb::Envelope::kPulse:
      return OnPulse(lane.shard, message.head.pulse(), now, out);
    case pb::Envelope::kEcho:
      return OnEcho(message.head.echo(), now);
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
  if (outcome == nullptr) return Log("dropped a message that servers do not send to workers", out);
  // What it needs of these it is sent again, once it has state.
  if (!has_state_ && !(installing_ && outcome->pulled())) return;
  std::vector<Exchange::Outgoing> outgoing;
  for (auto& delivery :
       exchange_.OnOutcome(lane, kind, *outcome, message.payload, now, &outgoing)) {
    if (outcome->stop_after() != 0) stop_after_ = outcome->stop_after();
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
  if (phase_ != Phase::kJoining) return;
  for (const auto& lanes : links_) {
    for (const Link& one : lanes) {
      if (one.state != LinkState::kUp) return;
    }
  }
  if (has_state_) {
    SendReady(out);
  } else if (resume_.has_value()) {
    phase_ = Phase::kFetching;
    installing_ = true;
    exchange_.Restart(resume_->round());
    out->push_back(Action(SessionAction::Type::kResume));
    out->back().applied = resume_->round();
    out->back().checkpoint = *resume_;
  } else if (begin_.has_value()) {
    phase_ = Phase::kFetching;
    installing_ = true;
    exchange_.Restart(*begin_);
    out->push_back(Action(SessionAction::Type::kGoBack));
    out->back().applied = *begin_;
  } else {
    phase_ = Phase::kFetching;
    Log("fetching the state of the job from another worker", out);
    AskForState(now, out);
  }
}

void Session::SendReady(SessionActions* out) {
  phase_ = Phase::kRunning;
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
  if (phase_ != Phase::kFetching || installing_ || piece.incarnation() != options_.incarnation)
    return;
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
  installing_ = true;
  stop_after_ = taker_.stop_after();
  exchange_.Restart(taker_.applied());
  out->push_back(Action(SessionAction::Type::kInstall));
  out->back().applied = taker_.applied();
  out->back().state = taker_.Take();
}

void Session::OnInstalled(uint64_t applied, Time now, SessionActions* out) {
  if (phase_ != Phase::kFetching || !installing_ || applied != exchange_.applied()) return;
  installing_ = going_back_ = false;
  has_state_ = true;
  SendReady(out);
  SendHeartbeats(now, out);
  // Now the lanes may know what it has: they send it what closed after that.
  const bool tells = options_.unsolicited || begin_.has_value() || resume_.has_value();
  for (uint32_t s = 0; tells && s < shards_.size(); ++s) {
    for (uint32_t l = 0; l < links_[s].size(); ++l) {
      if (links_[s][l].state == LinkState::kUp) SendHello({s, l}, now, out);
    }
  }
}

void Session::OnStateWant(const pb::StateWant& want, SessionActions* out) {
  if (!has_state_) return;
  std::optional<Message> piece;
  if (giver_.OnWant(want, &piece)) out->push_back(Action(SessionAction::Type::kSnapshot));
  if (piece) out->push_back(SendOn({0, 0}, std::move(*piece)));
}

void Session::OnSnapshot(Bytes state, uint64_t applied, Time, SessionActions* out) {
  if (!has_state_) return;  // it was dropped meanwhile
  for (Message& piece : giver_.OnSnapshot(state, applied, stop_after_))
    out->push_back(SendOn({0, 0}, std::move(piece)));
}

void Session::Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest,
                         Bytes payload, Time now, SessionActions* out, const Request& request) {
  if (!has_state_ && !(installing_ && request.pull_only)) return;
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.Contribute(cell, round, lane, digest, std::move(payload), now, &outgoing, request);
  Emit(std::move(outgoing), out);
}

void Session::SetApplied(uint64_t applied) {
  if (has_state_) exchange_.SetApplied(applied);
}

void Session::SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters) {
  progress_ = progress;
  waiting_ = waiting;
  counters_ = counters;
}

void Session::Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
                     uint64_t steps, Time now, SessionActions* out) {
  if (phase_ == Phase::kEnded || (going_back_ && status.ok())) return;
  phase_ = Phase::kLeaving;
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
  if (phase_ == Phase::kEnded || !stop_.ok()) return;
  if (phase_ == Phase::kLeaving && !leave_status_.ok()) return;  // it goes anyway
  stop_ = status;
  stop_at_ = now;
  Log("asking server shard 0 to stop the job", out);
  SendHeartbeats(now, out);
}

// Before the job has begun, and where shard 0 does not let this worker in again for long, it hears
// so by a connection that is not up: it cannot end the job in order then, but at once.
bool Session::MayHearOfStop(Time now) const {
  return !stop_.ok() && (phase_ == Phase::kJoining || now - stop_at_ > options_.timings.dead_after);
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
  if (phase_ == Phase::kEnded) return;
  if (now - heartbeat_at_ >= options_.timings.heartbeat) SendHeartbeats(now, out);
  RepairLinks(now, out);
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.OnTimer(now, &outgoing);
  Emit(std::move(outgoing), out);
  if (phase_ == Phase::kFetching && !installing_ &&
      now - asked_at_ >= options_.timings.resend_after)
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
  if (has_state_) beat->set_applied(exchange_.applied());
  beat->set_progress(progress_);
  beat->set_said_ns(now.count());
  beat->set_waiting(waiting_ || phase_ != Phase::kRunning);
  for (uint32_t s = static_cast<uint32_t>(shards_.size()); s-- > 0;) {
    if (s == 0) {  // the others have no use for them
      *beat->mutable_counters() = counters_;
      if (!stop_.ok()) beat->set_stop(static_cast<uint32_t>(ExitCode(stop_)));
    }
    if (links_[s][0].state == LinkState::kUp || (s == 0 && MayHearOfStop(now)))
      out->push_back(SendOn({s, 0}, message));
  }
}

void Session::OnEcho(const pb::Echo& echo, Time now) {
  const Time trip = now - Time(echo.said_ns());
  if (trip < Time(0) || trip > options_.timings.server_return_timeout) return;  // not our word
  ++round_trips_.count;
  round_trips_.total += trip;
  round_trips_.longest = std::max(round_trips_.longest, trip);
}

void Session::EndWith(Status status, SessionActions* out) {
  phase_ = Phase::kEnded;
  out->push_back(Action(SessionAction::Type::kEnded));
  out->back().status = std::move(status);
}

void Session::Emit(std::vector<Exchange::Outgoing> outgoing, SessionActions* out) {
  for (Exchange::Outgoing& one : outgoing) out->push_back(SendOn(one.lane, std::move(one.message)));
}

}  // namespace tern::protocol
