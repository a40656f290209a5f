// A session's connections: how they come up, break and are replaced.
#include <algorithm>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"
#include "common/protocol/members/control.h"
#include "common/protocol/members/session.h"
#include "common/protocol/members/session_actions.h"

namespace tern::protocol {

using LinkState = Links::State;

Message Session::MakeHello(LaneRef lane) const {
  Message message;
  pb::Hello* hello = message.head.mutable_hello();
  *hello = options_.hello;
  hello->set_role(pb::Hello::worker);
  hello->set_rank(options_.rank);
  hello->set_incarnation(options_.incarnation);
  hello->set_lane(lane.lane);
  hello->set_applied(has_state() ? exchange_.applied() : 0);
  hello->set_fresh(!has_state());
  hello->set_epoch(epoch_);
  hello->set_floor(exchange_.floor());
  hello->set_holds(exchange_.newest_held(lane));
  hello->set_done(phase_ == Phase::kLeaving && leave_status_.ok());
  if (run_ != 0) hello->set_run(run_);
  if (!has_state() && lane == LaneRef{}) {
    hello->set_keeps_own(options_.keeps_own);
    options_.saved.AddTo(hello);
  }
  if (options_.shrink && lane == LaneRef{}) hello->mutable_gone()->Add(gone_.begin(), gone_.end());
  return message;
}

void Session::OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out) {
  Links::Shard& shard = links_.shard(lane.shard);
  if (links_.IsUp(lane) && shard.incarnation == welcome.incarnation()) return;  // repeated
  if (lane.lane == 0) {
    OnControlWelcome(lane.shard, welcome, now, out);
    if (phase_ == Phase::kEnded) return;
  } else if (links_.link(lane).state != LinkState::kGreeting ||
             welcome.incarnation() != shard.incarnation) {
    return;  // of a server that is gone
  }
  links_.Become(lane, LinkState::kUp);
  std::vector<Exchange::Outgoing> outgoing;
  exchange_.OnLaneUp(lane, welcome.incarnation(), now, &outgoing);
  Emit(std::move(outgoing), out);
  AdvanceIfAllUp(now, out);
}

void Session::OnControlWelcome(uint32_t s, const pb::Welcome& welcome, Time now,
                               SessionActions* out) {
  Links::Shard& shard = links_.shard(s);
  const bool replaced = shard.incarnation != 0 && shard.incarnation != welcome.incarnation();
  shard.incarnation = welcome.incarnation();
  shard.data_ports.assign(welcome.data_ports().begin(), welcome.data_ports().end());
  if (shard.data_ports.size() != options_.data_lanes[s]) {
    return LeaveWith(Status(Code::kMismatch, "server shard " + std::to_string(s) + " has " +
                                                 std::to_string(shard.data_ports.size()) +
                                                 " data sockets, expected " +
                                                 std::to_string(options_.data_lanes[s])),
                     out);
  }
  if (replaced) links_.DropData(s);
  links_.Become({s, 0}, LinkState::kUp);
  if (s == 0) {
    epoch_ = std::max(epoch_, welcome.epoch());
    exchange_.SetEpoch(epoch_);
    if (welcome.run() != 0) run_ = welcome.run();
    if (pulses_of_ == 0) pulses_of_ = welcome.incarnation();  // it may die before its first pulse
    if (!origin_.has_value()) {
      if (!welcome.needs_state()) has_ = Has::kState;
      origin_.emplace();
      if (welcome.has_begin()) origin_->begin = welcome.begin();
      if (welcome.has_resume()) origin_->resume = welcome.resume();
    }
    if (phase_ == Phase::kLeaving) SendBye(now, out);
  }
  for (uint32_t one = 0; origin_.has_value() && one < links_.shards(); ++one)
    links_.ConnectData(one, now, out);
}

void Session::OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out) {
  if (IsLeftBehind(refuse.floor(), now, out)) return;
  const std::string shard = "server shard " + std::to_string(lane.shard) + ": ";
  switch (refuse.then()) {
    case pb::Refuse::retry:
      if (links_.IsUp(lane)) links_.Become(lane, LinkState::kGreeting);
      return;
    case pb::Refuse::ignore:
      return Log(shard + PrintableSentence(refuse.sentence()), out);
    case pb::Refuse::rejoin:
      return Rejoin(now, out);
    case pb::Refuse::again: {
      std::vector<Exchange::Outgoing> outgoing;
      exchange_.OnRoomAgain(lane, now, &outgoing);
      return Emit(std::move(outgoing), out);
    }
    case pb::Refuse::leave:
      break;
  }
  const Status error = ErrorFromPeer(refuse.code(), refuse.sentence());
  LeaveWith(Status(error.code(), "refused by " + shard + error.message()), out);
}

void Session::Rejoin(Time now, SessionActions* out) {
  Log("this worker was given up while it was silent; it says hello again as a new incarnation",
      out);
  if (options_.shrink && phase_ != Phase::kLeaving) DropState();
  if (!has_state() && phase_ != Phase::kLeaving) {
    Become(Phase::kJoining);  // it must greet every lane again before it asks
    started_at_ = now;
  }
  BeginAnew(now, out);
}

void Session::OnGoBack(const pb::GoBack& message, Time now, SessionActions* out) {
  if (message.incarnation() != options_.incarnation) return;
  if (phase_ == Phase::kLeaving && !leave_status_.ok()) return;  // it goes anyway
  Log("a server lost what it held: all go back to an earlier round", out);
  DropState();
  has_ = Has::kVoid;
  Become(Phase::kJoining);
  started_at_ = now;
  epoch_ = 0;  // as whom it comes now it was never admitted
  BeginAnew(now, out);
}

void Session::BeginAnew(Time now, SessionActions* out) {
  // Not random, but never used before: the first one was, and nobody else derives from it.
  options_.incarnation = options_.incarnation * 6364136223846793005u + 1442695040888963407u;
  exchange_.SetIncarnation(options_.incarnation);
  bye_.set_incarnation(options_.incarnation);
  origin_.reset();
  taker_ = StateTaker(options_.max_state_bytes);
  links_.BeginAnew(now, out);
}

void Session::DropState() {
  if (has_state()) has_ = Has::kNothing;
  stop_after_ = 0;
  exchange_.Restart(exchange_.applied());
  giver_ = StateGiver(options_.incarnation, options_.piece_bytes);
}

void Session::OnPulse(uint32_t shard, const pb::Pulse& pulse, Time now, SessionActions* out) {
  if (shard == 0) {
    absent_.assign(pulse.absent().begin(), pulse.absent().end());
    if (pulse.epoch() != 0) gone_ = absent_;
    // Another life of shard 0 gives all workers the whole time to come, and then they have to link
    // up.
    if (const uint64_t before = std::exchange(pulses_of_, pulse.incarnation());
        before != 0 && before != pulse.incarnation()) {
      started_at_ = now + options_.timings.dead_after;
    }
  }
  if (pulse.incarnation() != links_.shard(shard).incarnation) {
    if (links_.IsUp({shard, 0})) links_.LoseShard(shard, now, "it was started again", out);
    return;
  }
  if (pulse.epoch() < epoch_) return;  // of before it came: the job may have gone back since
  if (IsLeftBehind(pulse.floor(), now, out)) return;
  exchange_.OnFloor(pulse.floor());
  giver_.OnFloor(pulse.floor());
}

bool Session::IsLeftBehind(uint64_t floor, Time now, SessionActions* out) {
  if (phase_ != Phase::kRunning || floor <= exchange_.applied()) return false;
  if (options_.shrink) {
    Rejoin(now, out);
    return true;
  }
  LeaveWith(
      Status(Code::kPeerLost, "all workers have applied round " + std::to_string(floor) +
                                  ", but this one only " + std::to_string(exchange_.applied()) +
                                  ": its rank went on without it; start it again"),
      out);
  return true;
}

void Session::OnDisconnected(LaneRef lane, Time now, SessionActions* out) {
  const CheckedAfter checked(*this);
  if (phase_ == Phase::kEnded || links_.link(lane).state == LinkState::kDown) return;
  if (lane.lane == 0 && links_.IsUp(lane)) {
    return links_.LoseShard(lane.shard, now, "its connection closed", out);
  }
  exchange_.OnLaneDown(lane);
  links_.Connect(lane, links_.link(lane).port, now, out);
}

void Session::CheckSilence(Time now, SessionActions* out) {
  if (!stop_.ok() && now - links_.shard(0).heard_at > options_.timings.dead_after) {
    return LeaveWith(Status(stop_.code(), "stopped by a signal while server shard 0 was not there"),
                     out);
  }
  if (phase_ == Phase::kLeaving) {
    // Who has failed may go; who is done stays while others may need what it holds, but a server
    // that is gone for good cannot say that they do not.
    const bool failed = !leave_status_.ok();
    const Time since = failed ? leaving_since_ : links_.shard(0).heard_at;
    if (now - since >
        (failed ? options_.timings.dead_after : options_.timings.server_return_timeout)) {
      return EndWith(leave_status_, out);
    }
  }
  if (phase_ == Phase::kJoining && now - started_at_ > options_.timings.start_timeout) {
    return LeaveWith(Status(Code::kPeerLost, "the job did not start within " +
                                                 SecondsText(options_.timings.start_timeout) +
                                                 ": still waiting for " + Waiting()),
                     out);
  }
  for (uint32_t s = 0; s < links_.shards(); ++s) {
    const Links::Shard& shard = links_.shard(s);
    const Time silent = now - shard.heard_at;
    if (phase_ != Phase::kJoining && phase_ != Phase::kLeaving &&
        silent > options_.timings.server_return_timeout) {
      return LeaveWith(Status(Code::kPeerLost, links_.NameOf(s) + " was lost at round " +
                                                   std::to_string(exchange_.applied() + 1) +
                                                   ": silent for " + SecondsText(silent)),
                       out);
    }
    // A connection that said nothing for so long is replaced, whatever it was doing, before the
    // other end gives this worker up.
    const Time since = std::max(shard.heard_at, links_.link({s, 0}).connected_at);
    if (now - since <= options_.timings.suspect_after) continue;
    if (links_.IsUp({s, 0})) {
      links_.LoseShard(s, now, "silent for " + SecondsText(silent), out);
    } else {
      links_.Connect({s, 0}, 0, now, out);
    }
  }
}

std::string Session::Waiting() const {
  std::string text;
  const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  for (uint32_t s = 0; s < links_.shards(); ++s) {
    if (!links_.IsUp({s, 0})) add(links_.NameOf(s));
  }
  for (uint32_t rank : absent_) add("worker " + std::to_string(rank));
  return text.empty() ? "data sockets" : text;
}

}  // namespace tern::protocol
