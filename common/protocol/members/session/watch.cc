#include "common/protocol/members/session/watch.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "common/protocol/members/control.h"

namespace tern::protocol {

void Watch::OnWelcomeOfShard0(uint64_t incarnation) {
  if (shard0_incarnation_ == 0) shard0_incarnation_ = incarnation;
}

void Watch::OnPulse(uint32_t shard, const pb::Pulse& pulse, Time now, SessionActions* out) {
  if (shard == 0) OnPulseOfShard0(pulse, now);
  if (pulse.incarnation() != state_.links.shard(shard).incarnation) {
    if (state_.links.IsUp({shard, 0}))
      state_.links.LoseShard(shard, now, "it was started again", out);
    return;
  }
  // A pulse (a shard's heartbeat) that is older than this worker's admission may have a floor (the
  // newest round that all members have applied) from before the job went back to a checkpoint.
  if (pulse.epoch() < state_.epoch) return;
  if (rejoining_.HandleIfLeftBehind(pulse.floor(), now, out)) return;
  state_.exchange.OnFloor(pulse.floor());
  fetching_.OnFloor(pulse.floor());
}

void Watch::OnPulseOfShard0(const pb::Pulse& pulse, Time now) {
  state_.pulse_mark = pulse.mark();
  is_gathering_ = pulse.epoch() == 0;
  absent_ranks_.assign(pulse.absent().begin(), pulse.absent().end());
  if (pulse.epoch() != 0) state_.absent_ranks = absent_ranks_;
  // A new process of shard 0 waits for all workers for the full start timeout, so this worker waits
  // longer: it still has to open its links after that time.
  const uint64_t previous_incarnation = std::exchange(shard0_incarnation_, pulse.incarnation());
  if (previous_incarnation != 0 && previous_incarnation != pulse.incarnation())
    state_.joining_since = now + state_.options.timings.dead_after;
}

void Watch::OnDisconnected(LaneRef lane, Time now, SessionActions* out) {
  Links& links = state_.links;
  if (links.link(lane).state == Links::State::kDown) return;
  if (lane.lane == 0 && links.IsUp(lane))
    return links.LoseShard(lane.shard, now, "its connection closed", out);
  links.Reconnect(lane, "", now, out);
}

void Watch::OnDamaged(LaneRef lane, const std::string& why, Time now, SessionActions* out) {
  if (state_.links.link(lane).state != Links::State::kDown)
    state_.links.Reconnect(lane, why, now, out);
}

void Watch::OnTimer(Time now, SessionActions* out) {
  // A job that has begun does not fail to start while a server is away: that server has a deadline
  // of its own (LeaveIfLost).
  for (uint32_t s = 0; s < state_.links.num_shards(); ++s) {
    if (HasBegunWith(s) && !Hears(s, now)) state_.joining_since = now;
  }
  Time start_timeout = state_.options.timings.start_timeout;
  // Such a job may begin with fewer workers when shard 0's time is over, which began later perhaps.
  if (state_.options.shrink && (HasBegunWith(0) || Hears(0, now))) start_timeout *= 2;
  if (state_.phase() == SessionPhase::kJoining && now - state_.joining_since > start_timeout) {
    for (uint32_t s = 0; s < state_.links.num_shards(); ++s) {
      if (LeaveIfHindered(s, start_timeout, out)) return;
    }
    return leaving_.LeaveWith(
        Status(Code::kPeerLost, Cat("the job did not start within ", SecondsText(start_timeout),
                                    ": still waiting for ", WhoIsMissing(now))),
        out);
  }
  for (uint32_t s = 0; s < state_.links.num_shards(); ++s) {
    LogObstacle(s, out);
    if (LeaveIfLost(s, now, out)) return;
    ReplaceIfSilent(s, now, out);
  }
  state_.links.ReplaceUnanswered(now, out);
  LogWhoIsMissing(now, out);
}

void Watch::LogWhoIsMissing(Time now, SessionActions* out) {
  bool is_missing = state_.phase() == SessionPhase::kJoining;
  for (uint32_t s = 0; s < state_.links.num_shards(); ++s)
    is_missing = is_missing || !state_.links.IsUp({s, 0});
  const bool is_first = missing_logged_at_ == Time{};
  if (is_missing && !is_first && now - missing_logged_at_ < kAwaitedLogInterval) return;
  missing_logged_at_ = now;
  if (is_missing && !is_first) Log("still waiting for " + WhoIsMissing(now), out);
}

bool Watch::HasBegunWith(uint32_t s) const {
  if (state_.phase() != SessionPhase::kJoining) return true;
  return state_.origin.has_value() && state_.links.shard(s).incarnation != 0;
}

bool Watch::LeaveIfLost(uint32_t s, Time now, SessionActions* out) {
  const Time silence = now - state_.links.shard(s).heard_at;
  if (!HasBegunWith(s) || state_.leaving() ||
      silence <= state_.options.timings.server_return_timeout)
    return false;
  if (LeaveIfHindered(s, silence, out)) return true;
  leaving_.LeaveWith(Status(Code::kPeerLost, Cat(state_.links.NameOf(s), " was lost at round ",
                                                 state_.exchange.applied() + 1, ": silent for ",
                                                 SecondsText(silence))),
                     out);
  return true;
}

bool Watch::LeaveIfHindered(uint32_t s, Time waited, SessionActions* out) {
  const Status& obstacle = state_.links.shard(s).obstacle;
  if (state_.links.IsUp({s, 0}) || obstacle.ok()) return false;
  leaving_.LeaveWith(ObstacleError(state_.links.NameOf(s), obstacle, waited), out);
  return true;
}

void Watch::LogObstacle(uint32_t s, SessionActions* out) {
  Links::Shard& shard = state_.links.shard(s);
  const bool is_up = state_.links.IsUp({s, 0});
  if (!is_up && !shard.obstacle.ok() && !shard.is_obstacle_logged)
    Log(ObstacleForLog(state_.links.NameOf(s), shard.obstacle), out);
  shard.is_obstacle_logged = !is_up && (shard.is_obstacle_logged || !shard.obstacle.ok());
}

// Replaces a shard's connection on which nothing has come for some time, or on which the shard has
// not heard this worker: for little more than suspect_after, which is so short that shard 0 has not
// yet removed this worker.
void Watch::ReplaceIfSilent(uint32_t s, Time now, SessionActions* out) {
  const Links::Shard& shard = state_.links.shard(s);
  const Time suspect_after = state_.options.timings.suspect_after;
  const Time quiet_since = std::max(shard.heard_at, state_.links.link({s, 0}).connected_at);
  const bool is_quiet = now - quiet_since > suspect_after;
  // The echo of a shard that falls silent is older than its last pulse by up to two heartbeats.
  const Time deaf_after = suspect_after + 2 * state_.options.timings.heartbeat;
  const bool is_deaf =
      state_.links.IsUp({s, 0}) && !state_.leaving() && now - shard.echoed_at > deaf_after;
  if (!is_quiet && !is_deaf) return;
  if (!is_quiet) {
    state_.links.LoseShard(
        s, now, "no answer to heartbeats for " + SecondsText(now - shard.echoed_at), out);
  } else if (state_.links.IsUp({s, 0})) {
    state_.links.LoseShard(s, now, "silent for " + SecondsText(now - shard.heard_at), out);
  } else {
    state_.links.Connect({s, 0}, 0, now, out);
  }
}

bool Watch::Hears(uint32_t s, Time now) const {
  const Links::Shard& shard = state_.links.shard(s);
  return shard.was_heard && now - shard.heard_at <= state_.options.timings.suspect_after;
}

std::string Watch::WhoIsMissing(Time now) const {
  std::vector<std::string> missing_names, welcomes;
  for (uint32_t s = 0; s < state_.links.num_shards(); ++s) {
    if (!Hears(s, now)) {
      missing_names.push_back(state_.links.NameOf(s));
    } else if (!state_.links.IsUp({s, 0})) {
      welcomes.push_back("the welcome of " + state_.links.NameOf(s));
    }
  }
  for (uint32_t rank : absent_ranks_) missing_names.push_back(Cat("worker ", rank));
  // Servers welcome nobody before all have come, and so it is these that this worker waits for.
  if (!is_gathering_ || missing_names.empty())
    missing_names.insert(missing_names.end(), welcomes.begin(), welcomes.end());
  return missing_names.empty() ? "data sockets of " + state_.links.NamesOfThoseNotUp()
                               : Join(missing_names);
}

}  // namespace tern::protocol
