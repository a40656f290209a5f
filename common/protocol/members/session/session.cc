#include "common/protocol/members/session/session.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"

namespace tern::protocol {

namespace {

// A Welcome has come on a lane that is up: the answer to a probe, or a repeated one.
void OnProbeAnswered(LaneRef lane, const pb::Welcome& welcome, Time now, Exchange* exchange,
                     SessionActions* out) {
  if (!welcome.has_probe() || lane.lane == 0) return;
  std::set<ExchangeKey> counted;
  for (const pb::Counted& one : welcome.counted())
    counted.insert({one.exchange(), {Kind::kPush, one.bucket(), one.chunk()}});
  std::vector<Exchange::Outgoing> outgoing;
  exchange->OnProbeAnswered(lane, Time(static_cast<int64_t>(welcome.probe())), counted, now,
                            &outgoing);
  EmitOutgoing(std::move(outgoing), out);
}

// A message that is not about the membership: of a cell, or one that workers do not get.
void OnRoundMessage(LaneRef lane, const Message& message, Time now, SessionState* state,
                    SessionActions* out) {
  Kind kind;
  if (const pb::Outcome* confirmed = AsHeldOutcome(message.head, &kind))
    return state->exchange.OnHeldConfirmed(lane, kind, *confirmed);
  const pb::Outcome* outcome = AsOutcome(message.head, &kind);
  if (outcome == nullptr || outcome->form_case() == pb::Outcome::FORM_NOT_SET)
    return Log("dropped a message that servers do not send to workers", out);
  // A worker without state cannot use outcomes (the servers' answers to contributions). Once it has
  // state, the lanes (server sockets) send again the outcomes that it needs.
  if (!state->has_state() &&
      !(state->phase() == SessionPhase::kInstalling && outcome->has_pulled()))
    return;
  std::vector<Exchange::Outgoing> outgoing;
  for (auto& delivery :
       state->exchange.OnOutcome(lane, kind, *outcome, message.payload, now, &outgoing)) {
    if (const uint64_t last = LastExchangeOf(*outcome); last != 0) state->stop_after = last;
    if (const uint64_t round = CheckpointRoundOf(delivery.outcome); round != 0)
      state->checkpoint_after = round;
    out->push_back(MakeAction(SessionAction::Type::kDeliver, lane));
    out->back().delivery = std::move(delivery);
  }
  EmitOutgoing(std::move(outgoing), out);
}

}  // namespace

void Session::Start(Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  state_.joining_since = now;
  for (uint32_t s = 0; s < state_.links.num_shards(); ++s) {
    state_.links.shard(s).heard_at = now;
    state_.links.Connect({s, 0}, 0, now, out);
  }
}

void Session::OnMessage(LaneRef lane, const Message& message, Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (state_.ended()) return;
  state_.links.Hear(lane, now);
  const pb::Envelope& head = message.head;
  switch (head.body_case()) {
    case pb::Envelope::kWelcome:
      return OnWelcome(lane, head.welcome(), now, out);
    case pb::Envelope::kRefuse:
      return OnRefuse(lane, head.refuse(), now, out);
    case pb::Envelope::kPulse:
      return watch_.OnPulse(lane.shard, head.pulse(), now, out);
    case pb::Envelope::kEcho:
      state_.links.shard(lane.shard).echoed_at = now;
      return round_trips_.Add(now - Time(head.echo().sent_ns()),
                              state_.options.timings.server_return_timeout);
    case pb::Envelope::kStateWant:
      return fetching_.OnStateWant(head.state_want(), out);
    case pb::Envelope::kStatePiece:
      return fetching_.OnStatePiece(head.state_piece(), message.payload, now, out);
    case pb::Envelope::kGoBack:
      return rejoining_.OnGoBack(head.go_back(), now, out);
    case pb::Envelope::kAbort:
      return leaving_.OnFarewell(ErrorFromPeer(head.abort().code(), head.abort().sentence()), out);
    case pb::Envelope::kEnd:
      return leaving_.OnEnd(head.end(), out);
    default:
      return OnRoundMessage(lane, message, now, &state_, out);
  }
}

void Session::OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out) {
  if (welcome.incarnation() == 0) return;  // no server process has this incarnation
  Links& links = state_.links;
  const uint64_t server_incarnation = links.shard(lane.shard).incarnation;
  if (links.IsUp(lane) && server_incarnation == welcome.incarnation())
    return OnProbeAnswered(lane, welcome, now, &state_.exchange, out);
  if (lane.lane == 0) {
    if (!OnControlWelcome(lane.shard, welcome, now, out)) return;
  } else if (links.link(lane).state != Links::State::kGreeting ||
             welcome.incarnation() != server_incarnation) {
    return;  // The Welcome is from a server process that was replaced.
  }
  links.Become(lane, Links::State::kUp);
  state_.exchange.RaiseEpoch(welcome.epoch());
  std::vector<Exchange::Outgoing> outgoing;
  state_.exchange.OnLaneUp(lane, welcome.incarnation(), now, &outgoing);
  EmitOutgoing(std::move(outgoing), out);
  fetching_.AdvanceIfAllUp(now, out);
}

bool Session::OnControlWelcome(uint32_t s, const pb::Welcome& welcome, Time now,
                               SessionActions* out) {
  Links& links = state_.links;
  Links::Shard& shard = links.shard(s);
  const bool was_replaced = shard.incarnation != 0 && shard.incarnation != welcome.incarnation();
  shard.incarnation = welcome.incarnation();
  shard.data_ports.assign(welcome.data_ports().begin(), welcome.data_ports().end());
  const uint32_t num_expected = state_.options.data_lanes[s];
  if (shard.data_ports.size() != num_expected) {
    leaving_.LeaveWith(
        Status(Code::kMismatch, Cat("server shard ", s, " has ", shard.data_ports.size(),
                                    " data sockets, expected ", num_expected)),
        out);
    return false;
  }
  if (was_replaced) links.DropDataLinks(s);
  links.Become({s, 0}, Links::State::kUp);
  shard.echoed_at = now;
  if (s == 0) OnWelcomeOfShard0(welcome, now, out);
  for (uint32_t t = 0; state_.origin.has_value() && t < links.num_shards(); ++t)
    links.ConnectDataLinks(t, now, out);
  return true;
}

void Session::OnWelcomeOfShard0(const pb::Welcome& welcome, Time now, SessionActions* out) {
  state_.epoch = std::max(state_.epoch, welcome.epoch());
  if (welcome.run() != 0) state_.run = welcome.run();
  watch_.OnWelcomeOfShard0(welcome.incarnation());
  if (!state_.origin.has_value()) {
    if (!welcome.needs_state()) state_.state_held = SessionState::StateHeld::kState;
    SessionState::Origin& origin = state_.origin.emplace();
    if (welcome.has_begin()) origin.begin = welcome.begin();
    if (welcome.has_resume()) origin.resume = welcome.resume();
    if (welcome.has_others_resume()) origin.others_resume = welcome.others_resume();
  }
  if (state_.leaving()) leaving_.SendBye(now, out);
}

void Session::OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out) {
  if (rejoining_.HandleIfLeftBehind(refuse.floor(), now, out)) return;
  const std::string shard_prefix = Cat("server shard ", lane.shard, ": ");
  switch (refuse.then()) {
    case pb::Refuse::retry:
      if (state_.links.IsUp(lane)) state_.links.Become(lane, Links::State::kGreeting);
      return;
    case pb::Refuse::ignore:
      return Log(shard_prefix + PrintableSentence(refuse.sentence()), out);
    case pb::Refuse::rejoin:
      return rejoining_.Rejoin(now, out);
    case pb::Refuse::again: {
      std::vector<Exchange::Outgoing> outgoing;
      state_.exchange.OnRoomAgain(lane, now, &outgoing);
      return EmitOutgoing(std::move(outgoing), out);
    }
    case pb::Refuse::reconnect:
      return watch_.OnDamaged(lane, PrintableSentence(refuse.sentence()), now, out);
    case pb::Refuse::leave:
      break;
  }
  const Status error = ErrorFromPeer(refuse.code(), refuse.sentence());
  leaving_.LeaveWith(Status(error.code(), "refused by " + shard_prefix + error.message()), out);
}

void Session::OnDisconnected(LaneRef lane, Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (!state_.ended()) watch_.OnDisconnected(lane, now, out);
}

void Session::OnDamaged(LaneRef lane, const std::string& why, Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (!state_.ended()) watch_.OnDamaged(lane, why, now, out);
}

void Session::OnTimer(Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (state_.ended()) return;
  heartbeats_.OnTimer(now, out);
  state_.links.GreetAgain(state_.options.timings.hello_retry, now, out);
  std::vector<Exchange::Outgoing> outgoing;
  state_.exchange.OnTimer(now, &outgoing);
  for (const LaneRef silent : state_.exchange.TakeSilentLanes(now))
    state_.links.Probe(silent, now, out);
  EmitOutgoing(std::move(outgoing), out);
  fetching_.OnTimer(now, out);
  leaving_.OnTimer(now, out);
  if (!state_.ended()) watch_.OnTimer(now, out);
}

void Session::Contribute(const Cell& cell, LaneRef lane, Contribution contribution, Time now,
                         SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (!state_.has_state() && !(phase() == SessionPhase::kInstalling && IsPull(contribution)))
    return;
  if (auto* in_round = std::get_if<InRound>(&contribution); in_round != nullptr)
    in_round->checkpoint = in_round->round == state_.checkpoint_after;
  std::vector<Exchange::Outgoing> outgoing;
  state_.exchange.Contribute(cell, lane, std::move(contribution), now, &outgoing);
  EmitOutgoing(std::move(outgoing), out);
}

void Session::OnLeader(Exchange::Leader leader, Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  std::vector<Exchange::Outgoing> outgoing;
  state_.exchange.OnLeader(leader, now, &outgoing);
  EmitOutgoing(std::move(outgoing), out);
}

void Session::SetApplied(uint64_t applied) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (state_.has_state()) state_.exchange.SetApplied(applied);
}

void Session::OnSnapshot(const Bytes& state, uint64_t applied, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  fetching_.OnSnapshot(state, applied, out);
}

void Session::OnInstalled(uint64_t applied, Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  fetching_.OnInstalled(applied, now, out);
}

void Session::Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
                     uint64_t steps, Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (state_.ended() || (state_.state_held == SessionState::StateHeld::kVoid && status.ok()))
    return;
  leaving_.Finish(status, figures, counters, steps, now, out);
}

void Session::Stop(const Status& status, Time now, SessionActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (!state_.ended()) leaving_.Stop(status, now, out);
}

std::string Session::WaitingFor(Time now) const {
  switch (state_.phase()) {
    case Phase::kJoining:
      return watch_.WhoIsMissing(now);
    case Phase::kFetching:
    case Phase::kInstalling:
      return "the state of the job";
    case Phase::kRunning:
    case Phase::kLeaving:
    case Phase::kEnded:
      break;
  }
  return "";
}

void Session::RoundTrips::Add(Time trip, Time longest_valid) {
  // A negative or too long trip shows that this worker did not send the time in the echo.
  if (trip < Time(0) || trip > longest_valid) return;
  ++count;
  total += trip;
  longest = std::max(longest, trip);
}

Status Session::Check() const {
  TERN_RETURN_IF_ERROR(state_.Check());
  return fetching_.Check();
}

}  // namespace tern::protocol
