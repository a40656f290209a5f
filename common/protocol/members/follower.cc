#include "common/protocol/members/follower.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"
#include "common/protocol/rounds/lane_members.h"

namespace tern::protocol {

namespace {

RoundLane::Options LaneOptions(const ControlOptions& options) {
  RoundLane::Options lane_options = ControlLaneOptions(options);
  lane_options.data_ports = options.data_ports;
  return lane_options;
}

Message MakeAbort(const Status& error) {
  Message message;
  message.head.mutable_abort()->set_code(static_cast<uint32_t>(ExitCode(error)));
  message.head.mutable_abort()->set_sentence(error.message());
  return message;
}

void SendShard0(Message message, ControlActions* out) {
  ControlAction& action = out->emplace_back();
  action.type = ControlAction::Type::kSendShard0;
  action.send.message = std::move(message);
}

void SendToAll(const std::map<uint32_t, Peer>& peers, const Message& message, ControlActions* out) {
  for (const auto& [rank, peer] : peers) EmitSend(peer, message, out);
}

// Logs that shard 0 is silent when this shard `connects` again, and from then on from time to time.
void LogSilence(bool connects, Time heard_at, Time now, Time* logged_at, ControlActions* out) {
  const bool was_logged = *logged_at > heard_at;
  if (was_logged ? now - *logged_at < kAwaitedLogInterval : !connects) return;
  *logged_at = now;
  const std::string silence = SecondsText(now - heard_at);
  EmitLog(was_logged ? Cat("still waiting for server shard 0, which is silent for ", silence)
                     : Cat("server shard 0 is silent for ", silence, "; connecting again"),
          out);
}

}  // namespace

Follower::Follower(ControlOptions options, std::vector<CellSpec> cells)
    : options_(std::move(options)), lane_(LaneOptions(options_), std::move(cells)) {}

void Follower::Become(State next) {
  TERN_REQUIRES(!ended() || next == State::kEnded, "follower: has ended, and cannot become ",
                next == State::kGreeting ? "greeting" : "following");
  state_ = next;
}

Status Follower::Check() const {
  TERN_HOLDS(!following() || shard0_incarnation_ != 0,
             "follower: following, and shard 0 has said no Welcome");
  TERN_HOLDS(peers_.empty() || peers_.rbegin()->first < options_.workers,
             "follower: speaks to worker ", peers_.rbegin()->first, " of ", options_.workers);
  return Ok();
}

void Follower::Start(Time now, ControlActions* out) {
  heard_at_ = now;
  ConnectToShard0(now, out);
}

void Follower::ConnectToShard0(Time now, ControlActions* out) {
  connected_at_ = now;
  is_disconnected_ = false;
  Become(State::kGreeting);
  out->emplace_back().type = ControlAction::Type::kConnectShard0;
  SendHello(false, now, out);
}

void Follower::End(Status status, uint64_t last_step, ControlActions* out) {
  Become(State::kEnded);
  Message answer;
  answer.head.mutable_end();
  SendShard0(std::move(answer), out);
  EmitEnded(std::move(status), last_step, out);
}

void Follower::SendHello(bool is_run_under_way, Time now, ControlActions* out) {
  hello_at_ = now;
  Message message;
  pb::Hello* hello = message.head.mutable_hello();
  *hello = options_.expected_hello;
  hello->set_role(pb::Hello::shard);
  hello->set_rank(options_.shard);
  hello->set_incarnation(options_.incarnation);
  if (members_.run() != 0) hello->set_run(members_.run());
  if (options_.find_saved_checkpoints)
    options_.find_saved_checkpoints().AddTo(hello, is_run_under_way);
  SendShard0(std::move(message), out);
}

void Follower::OnMessageFromShard0(const Message& message, Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (ended()) return;
  heard_at_ = now;
  was_shard0_heard_ = true;
  switch (message.head.body_case()) {
    case pb::Envelope::kWelcome:
      if (message.head.welcome().incarnation() == 0) return;  // no process has this incarnation
      shard0_incarnation_ = message.head.welcome().incarnation();
      return Become(State::kFollowing);
    case pb::Envelope::kPulse:
      // Says hello again if shard 0 was restarted, or if its Members message was lost.
      if (message.head.pulse().incarnation() != shard0_incarnation_) Become(State::kGreeting);
      if (message.head.pulse().epoch() >
          (members_sender_ == shard0_incarnation_ ? members_.epoch() : 0)) {
        Become(State::kGreeting);
      }
      return;
    case pb::Envelope::kMembers:
      return OnMembers(message.head.members(), out);
    case pb::Envelope::kGoBack:
      return SendHello(true, now, out);  // offers the checkpoints that are on disk now
    case pb::Envelope::kEnd:
      return End(StatusOf(message.head.end()), message.head.end().last_step(), out);
    case pb::Envelope::kAbort: {
      const Status error =
          ErrorFromPeer(message.head.abort().code(), message.head.abort().sentence());
      SendToAll(peers_, MakeAbort(error), out);
      return End(error, message.head.abort().last_step(), out);
    }
    case pb::Envelope::kRefuse:
      return OnRefuse(message.head.refuse(), out);
    default:
      return EmitLog("dropped a message that shard 0 does not send", out);
  }
}

void Follower::OnRefuse(const pb::Refuse& refuse, ControlActions* out) {
  if (refuse.then() == pb::Refuse::reconnect) is_disconnected_ = true;
  if (refuse.then() != pb::Refuse::leave) return;
  const Status error = ErrorFromPeer(refuse.code(), refuse.sentence());
  End(Status(error.code(), "refused by server shard 0: " + error.message()), 0, out);
}

void Follower::OnMembers(const pb::Members& members, ControlActions* out) {
  if (members.epoch() < members_.epoch()) {
    // Shard 0 may have restarted with a lower epoch (number of the membership). This pulse
    // (heartbeat) makes shard 0 raise its epoch above the one that this shard knows.
    Message message;
    pb::Pulse* pulse = message.head.mutable_pulse();
    pulse->set_incarnation(options_.incarnation);
    pulse->set_epoch(members_.epoch());
    pulse->set_floor(lane_.floor());
    return SendShard0(std::move(message), out);
  }
  if (const std::optional<uint64_t> round =
          RoundToGoBackTo(members, members_.run(), members_.beginning())) {
    lane_.GoBack(*round);
    peers_.clear();  // every worker has to say hello again
  }
  members_ = members;
  members_sender_ = shard0_incarnation_;
  Sends sends;
  lane_.OnMembers(members_, &sends);
  EmitSends(std::move(sends), out);
  EmitMembers(members_, out);
}

void Follower::OnMessage(Peer from, const Message& message, Time, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (ended()) return;
  if (message.head.has_hello()) return OnHello(from, message.head.hello(), out);
  if (message.head.has_heartbeat()) return OnHeartbeat(from, message.head.heartbeat(), out);
  Sends sends;
  lane_.OnMessage(from, message, &sends);
  EmitSends(std::move(sends), out);
}

bool Follower::IsPeerOfJob(Peer peer) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [peer](const auto& item) { return item.second == peer; });
}

std::string Follower::WaitingFor() const {
  if (ended()) return "";
  if (!following()) return "server shard 0";
  if (members_.incarnations_size() == 0) return "the start of the job";
  std::vector<std::string> missing;
  for (int rank = 0; rank < members_.incarnations_size(); ++rank) {
    if (members_.incarnations(rank) != 0 && !peers_.contains(static_cast<uint32_t>(rank)))
      missing.push_back(Cat("worker ", rank));
  }
  return Join(missing);
}

void Follower::OnHello(Peer from, const pb::Hello& hello, ControlActions* out) {
  if (Status hello_status = CheckWorkersHello(hello, options_.expected_hello, options_.keys);
      !hello_status.ok()) {
    return EmitSend(
        from, MakeRefusal(hello_status.code(), hello_status.message(), pb::Refuse::leave), out);
  }
  const auto rank = static_cast<int>(hello.rank());
  const bool is_member = rank >= 0 && rank < members_.incarnations_size() &&
                         members_.incarnations(rank) == hello.incarnation();
  // This shard's heartbeats (pulses) go to the connections in peers_. They also go to a process
  // that says hello for a free rank, because it may become a member. But a late hello of a former
  // member does not replace the connection of the present member.
  if (hello.rank() < options_.workers && (is_member || !peers_.contains(hello.rank())))
    peers_[hello.rank()] = from;
  Sends sends;
  lane_.OnHello(from, hello, &sends);
  EmitSends(std::move(sends), out);
}

void Follower::OnHeartbeat(Peer from, const pb::Heartbeat& beat, ControlActions* out) {
  const auto found_peer = peers_.find(beat.rank());
  const bool has_greeted = found_peer != peers_.end() && found_peer->second == from;
  if (!has_greeted && options_.safeguards.checks_connections()) {
    return EmitSend(from, MakeRefusal(Code::kNotAllowed, "say hello first", pb::Refuse::retry),
                    out);
  }
  EmitEcho(from, beat, out);
  if (beat.has_applied()) lane_.OnApplied(beat.rank(), beat.incarnation(), beat.applied());
}

void Follower::OnTimer(Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (ended()) return;
  if (stop_code_ != Code::kOk && now - heard_at_ > options_.timings.dead_after)
    return EndWithoutShard0(out);
  // While greeting, the shard will be welcomed again, and then tells shard 0 why it fails.
  if (!failure_.ok() && (!was_shard0_heard_ || now - heard_at_ > options_.timings.dead_after)) {
    Become(State::kEnded);
    return EmitEnded(failure_, 0, out);
  }
  if (now - pulse_at_ >= options_.timings.heartbeat) SendPulses(now, out);
  if (!following() && now - hello_at_ >= options_.timings.hello_retry) SendHello(false, now, out);
  if (!obstacle_.ok() && !is_obstacle_logged_)
    EmitLog(ObstacleForLog("server shard 0", obstacle_), out);
  is_obstacle_logged_ = !obstacle_.ok();
  const Time silence = now - heard_at_;
  if (silence > (was_shard0_heard_ ? options_.timings.server_return_timeout
                                   : options_.timings.start_timeout)) {
    Become(State::kEnded);
    if (!obstacle_.ok())
      return EmitEnded(ObstacleError("server shard 0", obstacle_, silence), 0, out);
    return EmitEnded(
        Status(Code::kPeerLost, "server shard 0 was lost: silent for " + SecondsText(silence)), 0,
        out);
  }
  const bool is_stale =
      silence > options_.timings.dead_after && now - connected_at_ > options_.timings.dead_after;
  const bool connects =
      is_stale || (is_disconnected_ && now - connected_at_ >= options_.timings.hello_retry);
  if (connects) ConnectToShard0(now, out);
  LogSilence(connects, heard_at_, now, &silence_logged_at_, out);
}

void Follower::SendPulses(Time now, ControlActions* out) {
  pulse_at_ = now;
  Message message;
  pb::Pulse* pulse = message.head.mutable_pulse();
  pulse->set_incarnation(options_.incarnation);
  pulse->set_epoch(members_.epoch());
  pulse->set_floor(lane_.floor());
  SendToAll(peers_, message, out);
  if (stop_code_ != Code::kOk) pulse->set_stop(static_cast<uint32_t>(stop_code_));
  if (checkpoint_requests_ != 0) pulse->set_checkpoint_requests(checkpoint_requests_);
  pulse->set_failed_checkpoints(options_.NumFailedCheckpoints());
  if (following()) SendShard0(std::move(message), out);
  if (failure_.ok() || !following()) return;
  SendShard0(MakeAbort(failure_), out);
}

void Follower::OnFailure(const Status& status, Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (ended() || !failure_.ok()) return;
  failure_ = status;
  EmitLog("this shard cannot go on: " + status.message(), out);
  SendPulses(now, out);
}

void Follower::OnStop(Code code, Time now, ControlActions* out) {
  const CheckInvariantsAtScopeEnd checked(*this);
  if (ended() || stop_code_ != Code::kOk) return;
  stop_code_ = code;
  const bool hears_shard0 =
      shard0_incarnation_ != 0 && now - heard_at_ <= options_.timings.dead_after;
  if (!hears_shard0) return EndWithoutShard0(out);
  EmitNormalLog("asking shard 0 to stop the job", out);
  SendPulses(now, out);
}

void Follower::EndWithoutShard0(ControlActions* out) {
  Become(State::kEnded);
  EmitEnded(Status(stop_code_, "stopped by a signal while server shard 0 was not there"), 0, out);
}

}  // namespace tern::protocol
