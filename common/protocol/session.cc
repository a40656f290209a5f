#include "common/protocol/session.h"

#include <algorithm>
#include <utility>

namespace tern::protocol {

namespace {

SessionAction Action(SessionAction::Type type, LaneRef lane = {}) {
  SessionAction action;
  action.type = type;
  action.lane = lane;
  return action;
}

SessionAction SendOn(LaneRef lane, Message message) {
  SessionAction action = Action(SessionAction::Type::kSend, lane);
  action.message = std::move(message);
  return action;
}

void Log(std::string text, SessionActions* out) {
  out->push_back(Action(SessionAction::Type::kLog));
  out->back().text = std::move(text);
}

std::string Seconds(Time time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

Session::Session(Options options)
    : options_(std::move(options)),
      exchange_({options_.rank, options_.incarnation, options_.credit_bytes,
                 options_.timings.resend_after}),
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

void Session::Connect(LaneRef lane, uint32_t port, Time now, SessionActions* out) {
  out->push_back(Action(SessionAction::Type::kConnect, lane));
  out->back().port = port;
  link(lane) = Link{LinkState::kGreeting, port, now, now};
  SendHello(lane, now, out);
}

void Session::SendHello(LaneRef lane, Time now, SessionActions* out) {
  Message message;
  pb::Hello* hello = message.head.mutable_hello();
  *hello = options_.hello;
  hello->set_role(pb::Hello::worker);
  hello->set_rank(options_.rank);
  hello->set_incarnation(options_.incarnation);
  hello->set_lane(lane.lane);
  hello->set_applied(exchange_.applied());
  hello->set_fresh(!has_state_);
  hello->set_epoch(epoch_);
  hello->set_floor(exchange_.floor());
  link(lane).hello_at = now;
  out->push_back(SendOn(lane, std::move(message)));
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
    case pb::Envelope::kStateWant:
      return OnStateWant(message.head.state_want(), out);
    case pb::Envelope::kStatePiece:
      return OnStatePiece(message.head.state_piece(), message.payload, now, out);
    case pb::Envelope::kAbort:
      return OnLastWord(
          Status(static_cast<Code>(message.head.abort().code()), message.head.abort().sentence()),
          out);
    case pb::Envelope::kEnd: {
      Status status(static_cast<Code>(message.head.end().code()), message.head.end().sentence());
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

void Session::OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out) {
  Shard& shard = shards_[lane.shard];
  if (link(lane).state == LinkState::kUp && shard.incarnation == welcome.incarnation())
    return;  // repeated
  if (lane.lane == 0) {
    OnControlWelcome(lane.shard, welcome, now, out);
    if (phase_ == Phase::kEnded) return;
  } else if (link(lane).state != LinkState::kGreeting ||
             welcome.incarnation() != shard.incarnation) {
    return;  // of a server that is gone
  }
  link(lane).state = LinkState::kUp;
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.OnLaneUp(lane, welcome.incarnation(), now, &outgoing);
  Emit(std::move(outgoing), out);
  AdvanceIfAllUp(now, out);
}

void Session::OnControlWelcome(uint32_t s, const pb::Welcome& welcome, Time now,
                               SessionActions* out) {
  Shard& shard = shards_[s];
  const bool replaced = shard.incarnation != 0 && shard.incarnation != welcome.incarnation();
  shard.incarnation = welcome.incarnation();
  shard.data_ports.assign(welcome.data_ports().begin(), welcome.data_ports().end());
  if (shard.data_ports.size() != options_.data_lanes[s]) {
    return EndWith(Status(Code::kMismatch, "server shard " + std::to_string(s) + " has " +
                                               std::to_string(shard.data_ports.size()) +
                                               " data sockets, expected " +
                                               std::to_string(options_.data_lanes[s])),
                   out);
  }
  for (uint32_t l = 1; replaced && l < links_[s].size(); ++l) {
    exchange_.OnLaneDown({s, l});
    links_[s][l].state = LinkState::kDown;
  }
  link({s, 0}).state = LinkState::kUp;
  if (s == 0) {
    epoch_ = std::max(epoch_, welcome.epoch());
    if (!welcomed_ && !welcome.needs_state()) has_state_ = true;
    welcomed_ = true;
    if (phase_ == Phase::kLeaving) SendBye(now, out);
  }
  for (uint32_t one = 0; one < shards_.size(); ++one) ConnectDataLanes(one, now, out);
}

void Session::ConnectDataLanes(uint32_t shard, Time now, SessionActions* out) {
  if (!welcomed_ || links_[shard][0].state != LinkState::kUp) return;
  for (uint32_t l = 1; l < links_[shard].size(); ++l) {
    if (links_[shard][l].state == LinkState::kDown)
      Connect({shard, l}, shards_[shard].data_ports[l - 1], now, out);
  }
}

void Session::OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out) {
  switch (refuse.then()) {
    case pb::Refuse::retry:
      if (link(lane).state == LinkState::kUp) link(lane).state = LinkState::kGreeting;
      return;
    case pb::Refuse::ignore:
      return Log("server shard " + std::to_string(lane.shard) + ": " + refuse.sentence(), out);
    case pb::Refuse::rejoin:
      return Rejoin(now, out);
    case pb::Refuse::leave:
      break;
  }
  EndWith(
      Status(static_cast<Code>(refuse.code()),
             "refused by server shard " + std::to_string(lane.shard) + ": " + refuse.sentence()),
      out);
}

void Session::Rejoin(Time now, SessionActions* out) {
  Log("this worker was given up while it was silent; it says hello again as a new incarnation",
      out);
  // Not random, but never used before: the first one was, and nobody else derives from it.
  options_.incarnation = options_.incarnation * 6364136223846793005u + 1442695040888963407u;
  exchange_.SetIncarnation(options_.incarnation);
  bye_.set_incarnation(options_.incarnation);
  welcomed_ = false;
  if (phase_ == Phase::kFetching)
    phase_ = Phase::kJoining;  // it must greet every lane again before it asks
  taker_ = StateTaker(options_.max_state_bytes);
  installing_ = false;
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    for (uint32_t l = 0; l < links_[s].size(); ++l) {
      exchange_.OnLaneDown({s, l});
      link({s, l}).state = LinkState::kDown;
    }
    Connect({s, 0}, 0, now, out);
  }
}

void Session::OnPulse(uint32_t shard, const pb::Pulse& pulse, Time now, SessionActions* out) {
  if (shard == 0) absent_.assign(pulse.absent().begin(), pulse.absent().end());
  if (pulse.incarnation() != shards_[shard].incarnation) {
    if (links_[shard][0].state == LinkState::kUp)
      LoseShard(shard, now, "it was started again", out);
    return;
  }
  if (phase_ == Phase::kRunning && pulse.floor() > exchange_.applied()) {
    return EndWith(
        Status(Code::kPeerLost, "all workers have applied round " + std::to_string(pulse.floor()) +
                                    ", but this one only " + std::to_string(exchange_.applied()) +
                                    ": its rank went on without it; start it again"),
        out);
  }
  exchange_.OnFloor(pulse.floor());
  giver_.OnFloor(pulse.floor());
}

void Session::LoseShard(uint32_t shard, Time now, const std::string& why, SessionActions* out) {
  Log("server shard " + std::to_string(shard) + " (" + options_.servers[shard] +
          ") is lost: " + why,
      out);
  exchange_.OnLaneDown({shard, 0});
  Connect({shard, 0}, 0, now, out);
}

void Session::OnDisconnected(LaneRef lane, Time now, SessionActions* out) {
  if (phase_ == Phase::kEnded || link(lane).state == LinkState::kDown) return;
  if (lane.lane == 0 && link(lane).state == LinkState::kUp) {
    return LoseShard(lane.shard, now, "its connection closed", out);
  }
  exchange_.OnLaneDown(lane);
  Connect(lane, link(lane).port, now, out);
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
      return EndWith(
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

void Session::OnInstalled(Time now, SessionActions* out) {
  if (phase_ != Phase::kFetching || !installing_) return;
  installing_ = false;
  has_state_ = true;
  SendReady(out);
  SendHeartbeats(now, out);
}

void Session::OnStateWant(const pb::StateWant& want, SessionActions* out) {
  if (!has_state_) return;
  std::optional<Message> piece;
  if (giver_.OnWant(want, &piece)) out->push_back(Action(SessionAction::Type::kSnapshot));
  if (piece) out->push_back(SendOn({0, 0}, std::move(*piece)));
}

void Session::OnSnapshot(Bytes state, uint64_t applied, Time, SessionActions* out) {
  for (Message& piece : giver_.OnSnapshot(state, applied, stop_after_))
    out->push_back(SendOn({0, 0}, std::move(piece)));
}

void Session::Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest,
                         Bytes payload, Time now, SessionActions* out) {
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.Contribute(cell, round, lane, digest, std::move(payload), now, &outgoing);
  Emit(std::move(outgoing), out);
}

void Session::SetApplied(uint64_t applied) { exchange_.SetApplied(applied); }

void Session::SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters) {
  progress_ = progress;
  waiting_ = waiting;
  counters_ = counters;
}

void Session::Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
                     Time now, SessionActions* out) {
  if (phase_ == Phase::kEnded) return;
  phase_ = Phase::kLeaving;
  leaving_since_ = now;
  leave_status_ = status;
  bye_.set_rank(options_.rank);
  bye_.set_incarnation(options_.incarnation);
  bye_.set_code(static_cast<uint32_t>(ExitCode(status)));
  bye_.set_sentence(status.message());
  *bye_.mutable_counters() = counters;
  *bye_.mutable_figures() = figures;
  SendBye(now, out);
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

void Session::RepairLinks(Time now, SessionActions* out) {
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    for (uint32_t l = 0; l < links_[s].size(); ++l) {
      const Link& one = links_[s][l];
      if (one.state == LinkState::kGreeting && now - one.hello_at >= options_.timings.hello_retry) {
        SendHello({s, l}, now, out);
      }
    }
  }
}

void Session::SendHeartbeats(Time now, SessionActions* out) {
  heartbeat_at_ = now;
  Message message;
  pb::Heartbeat* beat = message.head.mutable_heartbeat();
  beat->set_rank(options_.rank);
  beat->set_incarnation(options_.incarnation);
  if (has_state_) beat->set_applied(exchange_.applied());
  beat->set_progress(progress_);
  beat->set_waiting(waiting_ || phase_ != Phase::kRunning);
  for (uint32_t s = static_cast<uint32_t>(shards_.size()); s-- > 0;) {
    if (s == 0) *beat->mutable_counters() = counters_;  // the others have no use for them
    if (links_[s][0].state == LinkState::kUp) out->push_back(SendOn({s, 0}, message));
  }
}

void Session::CheckSilence(Time now, SessionActions* out) {
  if (phase_ == Phase::kLeaving) {
    // Who has failed may go; who is done stays while others may need what it holds, but a server
    // that is gone for good cannot say that they do not.
    const bool failed = !leave_status_.ok();
    const Time since = failed ? leaving_since_ : shards_[0].heard_at;
    if (now - since >
        (failed ? options_.timings.dead_after : options_.timings.server_return_timeout)) {
      return EndWith(leave_status_, out);
    }
  }
  if (phase_ == Phase::kJoining && now - started_at_ > options_.timings.start_timeout) {
    return EndWith(Status(Code::kPeerLost, "the job did not start within " +
                                               Seconds(options_.timings.start_timeout) +
                                               ": still waiting for " + Waiting()),
                   out);
  }
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    const Time silent = now - shard.heard_at;
    if (phase_ != Phase::kJoining && phase_ != Phase::kLeaving &&
        silent > options_.timings.server_return_timeout) {
      return EndWith(Status(Code::kPeerLost, "server shard " + std::to_string(s) + " (" +
                                                 options_.servers[s] + ") was lost at round " +
                                                 std::to_string(exchange_.applied() + 1) +
                                                 ": silent for " + Seconds(silent)),
                     out);
    }
    // A connection that said nothing for so long is replaced, whatever it was doing, before the
    // other end gives this worker up.
    const Time since = std::max(shard.heard_at, links_[s][0].connected_at);
    if (now - since <= options_.timings.suspect_after) continue;
    if (links_[s][0].state == LinkState::kUp) {
      LoseShard(s, now, "silent for " + Seconds(silent), out);
    } else {
      Connect({s, 0}, 0, now, out);
    }
  }
}

std::string Session::Waiting() const {
  std::string text;
  const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    if (links_[s][0].state != LinkState::kUp)
      add("server shard " + std::to_string(s) + " (" + options_.servers[s] + ")");
  }
  for (uint32_t rank : absent_) add("worker " + std::to_string(rank));
  return text.empty() ? "data sockets" : text;
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
