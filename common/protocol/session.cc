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
      exchange_({options_.rank, options_.incarnation, options_.credit_bytes, options_.timings.resend_after}),
      shards_(options_.data_lanes.size()) {
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
  link(lane) = Link{LinkState::kGreeting, port, now};
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
  link(lane).hello_at = now;
  out->push_back(SendOn(lane, std::move(message)));
}

void Session::OnMessage(LaneRef lane, const Message& message, Time now, SessionActions* out) {
  if (phase_ == Phase::kEnded) return;
  Shard& shard = shards_[lane.shard];
  if (lane.lane == 0) {
    shard.heard_at = now;
    shard.lost = false;
  }
  switch (message.head.body_case()) {
    case pb::Envelope::kWelcome: return OnWelcome(lane, message.head.welcome(), now, out);
    case pb::Envelope::kRefuse: return OnRefuse(lane, message.head.refuse(), now, out);
    case pb::Envelope::kPulse: return OnPulse(lane.shard, message.head.pulse(), now, out);
    case pb::Envelope::kStateWant: return OnStateWant(message.head.state_want(), out);
    case pb::Envelope::kStatePiece: return OnStatePiece(message.head.state_piece(), message.payload, now, out);
    case pb::Envelope::kAbort:
      return EndWith(Status(static_cast<Code>(message.head.abort().code()), message.head.abort().sentence()), out);
    case pb::Envelope::kEnd:
      return EndWith(Status(static_cast<Code>(message.head.end().code()), message.head.end().sentence()), out);
    default: break;
  }
  Kind kind;
  const pb::Outcome* outcome = AsOutcome(message.head, &kind);
  if (outcome == nullptr) return Log("dropped a message that servers do not send to workers", out);
  std::vector<Exchange::Outgoing> outgoing;
  for (auto& delivery : exchange_.OnOutcome(lane, kind, *outcome, message.payload, now, &outgoing)) {
    out->push_back(Action(SessionAction::Type::kDeliver, lane));
    out->back().delivery = std::move(delivery);
  }
  Emit(std::move(outgoing), out);
}

void Session::OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out) {
  Shard& shard = shards_[lane.shard];
  if (link(lane).state == LinkState::kUp && shard.incarnation == welcome.incarnation()) return;  // repeated
  if (lane.lane == 0) {
    const bool replaced = shard.incarnation != 0 && shard.incarnation != welcome.incarnation();
    shard.incarnation = welcome.incarnation();
    shard.data_ports.assign(welcome.data_ports().begin(), welcome.data_ports().end());
    if (shard.data_ports.size() != options_.data_lanes[lane.shard]) {
      return EndWith(Status(Code::kMismatch, "server shard " + std::to_string(lane.shard) + " has " +
                                                 std::to_string(shard.data_ports.size()) + " data sockets, expected " +
                                                 std::to_string(options_.data_lanes[lane.shard])), out);
    }
    if (lane.shard == 0) {
      epoch_ = std::max(epoch_, welcome.epoch());
      if (welcome.needs_state() && phase_ != Phase::kJoining) {
        return EndWith(Status(Code::kPeerLost, "the others went on while this worker was away; start it again"), out);
      }
      if (!welcomed_) has_state_ = has_state_ || !welcome.needs_state();
      welcomed_ = true;
      for (uint32_t s = 1; s < shards_.size(); ++s) ConnectDataLanes(s, now, out);
    }
    if (replaced) {
      for (uint32_t l = 1; l < links_[lane.shard].size(); ++l) links_[lane.shard][l].state = LinkState::kDown;
    }
    link(lane).state = LinkState::kUp;
    ConnectDataLanes(lane.shard, now, out);
  } else if (link(lane).state != LinkState::kGreeting || welcome.incarnation() != shard.incarnation) {
    return;  // of a server that is gone
  }
  link(lane).state = LinkState::kUp;
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.OnLaneUp(lane, welcome.incarnation(), now, &outgoing);
  Emit(std::move(outgoing), out);
  AdvanceIfAllUp(now, out);
}

void Session::ConnectDataLanes(uint32_t shard, Time now, SessionActions* out) {
  if (!welcomed_ || links_[shard][0].state != LinkState::kUp) return;
  for (uint32_t l = 1; l < links_[shard].size(); ++l) {
    if (links_[shard][l].state == LinkState::kDown) Connect({shard, l}, shards_[shard].data_ports[l - 1], now, out);
  }
}

void Session::OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out) {
  switch (refuse.then()) {
    case pb::Refuse::retry:
      if (link(lane).state == LinkState::kUp) link(lane).state = LinkState::kGreeting;
      return;
    case pb::Refuse::ignore: return Log("server shard " + std::to_string(lane.shard) + ": " + refuse.sentence(), out);
    case pb::Refuse::rejoin: return Rejoin(now, out);
    case pb::Refuse::leave: break;
  }
  EndWith(Status(static_cast<Code>(refuse.code()), "refused by server shard " + std::to_string(lane.shard) + ": " +
                                                       refuse.sentence()), out);
}

void Session::Rejoin(Time now, SessionActions* out) {
  Log("this worker was given up while it was silent; it says hello again as a new incarnation", out);
  // Not random, but never used before: the first one was, and nobody else derives from it.
  options_.incarnation = options_.incarnation * 6364136223846793005u + 1442695040888963407u;
  exchange_.SetIncarnation(options_.incarnation);
  welcomed_ = false;
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
  if (shards_[shard].incarnation != 0 && pulse.incarnation() != shards_[shard].incarnation) {
    return LoseShard(shard, now, "it was started again", out);
  }
  exchange_.OnFloor(pulse.floor());
}

void Session::LoseShard(uint32_t shard, Time now, const std::string& why, SessionActions* out) {
  Log("server shard " + std::to_string(shard) + " (" + options_.servers[shard] + ") is lost: " + why, out);
  for (uint32_t l = 0; l < links_[shard].size(); ++l) {
    exchange_.OnLaneDown({shard, l});
    links_[shard][l].state = LinkState::kDown;
  }
  shards_[shard].lost = true;
  Connect({shard, 0}, 0, now, out);
}

void Session::OnDisconnected(LaneRef lane, Time now, SessionActions* out) {
  if (phase_ == Phase::kEnded || link(lane).state == LinkState::kDown) return;
  if (lane.lane == 0) return LoseShard(lane.shard, now, "its connection closed", out);
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
    phase_ = Phase::kRunning;
    out->push_back(Action(SessionAction::Type::kReady));
    out->back().applied = exchange_.applied();
  } else {
    phase_ = Phase::kFetching;
    Log("fetching the state of the job from another worker", out);
    AskForState(now, out);
  }
}

void Session::AskForState(Time now, SessionActions* out) {
  Message message;
  pb::StateWant* want = message.head.mutable_state_want();
  want->set_rank(options_.rank);
  want->set_incarnation(options_.incarnation);
  want->set_piece(fetch_.next);
  fetch_.asked_at = now;
  out->push_back(SendOn({0, 0}, std::move(message)));
}

void Session::OnStatePiece(const pb::StatePiece& piece, const Bytes& payload, Time now, SessionActions* out) {
  if (phase_ != Phase::kFetching || piece.incarnation() != options_.incarnation) return;
  if (piece.transfer() != fetch_.transfer) {  // another snapshot (or the first): from its first piece
    fetch_ = Fetch{};
    fetch_.transfer = piece.transfer();
    fetch_.pieces = piece.pieces();
    fetch_.applied = piece.applied();
    if (piece.piece() != 0) return AskForState(now, out);
  }
  if (piece.piece() != fetch_.next) return;  // repeated
  fetch_.state.append(payload.view());
  if (fetch_.state.size() > options_.max_state_bytes) {
    return EndWith(Status(Code::kMismatch, "the state sent by another worker is larger than this model's, " +
                                               std::to_string(options_.max_state_bytes) + " bytes"), out);
  }
  if (++fetch_.next < fetch_.pieces) return AskForState(now, out);
  out->push_back(Action(SessionAction::Type::kInstall));
  out->back().applied = fetch_.applied;
  out->back().state = Bytes::Own(std::move(fetch_.state));
  exchange_.Restart(fetch_.applied);
}

void Session::OnInstalled(Time now, SessionActions* out) {
  if (phase_ != Phase::kFetching) return;
  has_state_ = true;
  phase_ = Phase::kRunning;
  out->push_back(Action(SessionAction::Type::kReady));
  out->back().applied = exchange_.applied();
  SendHeartbeats(now, out);
}

void Session::OnStateWant(const pb::StateWant& want, SessionActions* out) {
  if (!has_state_) return;
  // Asking for the first piece of a snapshot that was already served takes a new one.
  const bool same = snapshot_.incarnation == want.incarnation() && (want.piece() != 0 || !snapshot_.ready);
  if (!same) {
    snapshot_ = Snapshot{want.rank(), want.incarnation(), 0, snapshot_.transfer + 1, {}, false, 0};
    out->push_back(Action(SessionAction::Type::kSnapshot));
  }
  snapshot_.asked_piece = want.piece();
  if (snapshot_.ready) SendPiece(out);
}

void Session::OnSnapshot(Bytes state, uint64_t applied, Time, SessionActions* out) {
  snapshot_.state = std::move(state);
  snapshot_.applied = applied;
  snapshot_.ready = true;
  SendPiece(out);
}

void Session::SendPiece(SessionActions* out) {
  const uint64_t size = snapshot_.state.size();
  const auto pieces = static_cast<uint32_t>(std::max<uint64_t>(1, (size + options_.piece_bytes - 1) / options_.piece_bytes));
  if (snapshot_.asked_piece >= pieces) return;
  Message message;
  pb::StatePiece* piece = message.head.mutable_state_piece();
  piece->set_rank(snapshot_.rank);
  piece->set_incarnation(snapshot_.incarnation);
  piece->set_piece(snapshot_.asked_piece);
  piece->set_pieces(pieces);
  piece->set_applied(snapshot_.applied);
  piece->set_transfer(options_.incarnation + snapshot_.transfer);
  const uint64_t begin = uint64_t{snapshot_.asked_piece} * options_.piece_bytes;
  message.payload = snapshot_.state.Slice(begin, std::min<uint64_t>(options_.piece_bytes, size - begin));
  out->push_back(SendOn({0, 0}, std::move(message)));
}

void Session::Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest, Bytes payload, Time now,
                         SessionActions* out) {
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
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    for (uint32_t l = 0; l < links_[s].size(); ++l) {
      Link& one = links_[s][l];
      if (one.state == LinkState::kGreeting && now - one.hello_at >= options_.timings.hello_retry) SendHello({s, l}, now, out);
    }
  }
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.OnTimer(now, &outgoing);
  Emit(std::move(outgoing), out);
  if (phase_ == Phase::kFetching && now - fetch_.asked_at >= options_.timings.resend_after) AskForState(now, out);
  if (phase_ == Phase::kLeaving && now - bye_at_ >= options_.timings.hello_retry) SendBye(now, out);
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
  beat->set_waiting(waiting_ || phase_ != Phase::kRunning);
  *beat->mutable_counters() = counters_;
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    if (links_[s][0].state == LinkState::kUp) out->push_back(SendOn({s, 0}, message));
  }
}

void Session::CheckSilence(Time now, SessionActions* out) {
  if (phase_ == Phase::kLeaving && now - leaving_since_ > options_.timings.dead_after) {
    return EndWith(Ok(), out);  // the work is done; a server that is gone cannot say so
  }
  if (phase_ == Phase::kJoining && now - started_at_ > options_.timings.start_timeout) {
    return EndWith(Status(Code::kPeerLost, "the job did not start within " + Seconds(options_.timings.start_timeout) +
                                               ": still waiting for " + Waiting()), out);
  }
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    const Time silent = now - shard.heard_at;
    if (phase_ != Phase::kJoining && silent > options_.timings.server_return_timeout) {
      return EndWith(Status(Code::kPeerLost, "server shard " + std::to_string(s) + " (" + options_.servers[s] +
                                                 ") was lost at round " + std::to_string(exchange_.applied() + 1) +
                                                 ": silent for " + Seconds(silent)), out);
    }
    // A connection that said nothing for so long is replaced, whatever it was doing.
    const bool stale = silent > options_.timings.dead_after && now - links_[s][0].hello_at > options_.timings.dead_after;
    if (links_[s][0].state == LinkState::kUp && silent > options_.timings.dead_after) {
      LoseShard(s, now, "silent for " + Seconds(silent), out);
    } else if (links_[s][0].state == LinkState::kGreeting && stale && shard.lost) {
      Connect({s, 0}, 0, now, out);
    }
  }
}

std::string Session::Waiting() const {
  std::string text;
  const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    if (links_[s][0].state != LinkState::kUp) add("server shard " + std::to_string(s) + " (" + options_.servers[s] + ")");
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
