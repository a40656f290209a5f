#include "common/protocol/members/session/heartbeats.h"

namespace tern::protocol {

void Heartbeats::SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters) {
  progress_ = progress;
  waiting_ = waiting;
  counters_ = counters;
}

void Heartbeats::OnTimer(Time now, SessionActions* out) {
  if (now - sent_at_ >= state_.options.timings.heartbeat) Send(now, out);
}

void Heartbeats::Send(Time now, SessionActions* out) {
  sent_at_ = now;
  Message message;
  pb::Heartbeat* beat = message.head.mutable_heartbeat();
  beat->set_rank(state_.options.rank);
  beat->set_incarnation(state_.incarnation);
  if (state_.has_state()) beat->set_applied(state_.exchange.applied());
  beat->set_progress(progress_);
  beat->set_said_ns(now.count());
  beat->set_waiting(waiting_ || state_.phase() != SessionPhase::kRunning);
  // Before the job has begun, and where shard 0 does not let this worker in again for long, it
  // hears of a stop by a connection that is not up: it cannot end the job in order then, but at
  // once.
  const bool stops = !state_.stop.ok();
  const bool told = stops && (state_.phase() == SessionPhase::kJoining ||
                              now - state_.stop_at > state_.options.timings.dead_after);
  for (uint32_t s = state_.links.shards(); s-- > 0;) {
    if (s == 0) {  // the others have no use for them
      *beat->mutable_counters() = counters_;
      if (stops) beat->set_stop(static_cast<uint32_t>(ExitCode(state_.stop)));
    }
    if (state_.links.IsUp({s, 0}) || (s == 0 && told)) out->push_back(SendOn({s, 0}, message));
  }
}

}  // namespace tern::protocol
