#include "common/protocol/members/session/heartbeats.h"

namespace tern::protocol {

void Heartbeats::Set(bool waiting, const pb::Counters& counters) {
  is_waiting_ = waiting;
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
  beat->set_progress(state_.progress);
  beat->set_sent_ns(now.count());
  const SessionPhase phase = state_.phase();
  const bool owner_acts = phase == SessionPhase::kRunning || phase == SessionPhase::kInstalling;
  beat->set_waiting(is_waiting_ || !owner_acts);
  // A stop request also goes out on a connection that shard 0 has not welcomed, in two cases: the
  // job has not started, or shard 0 has not admitted this worker again for `dead_after`. Shard 0
  // then ends the job at once, not after the round in progress.
  const bool must_stop = !state_.stop_status.ok();
  const bool sends_even_if_down =
      must_stop && (state_.phase() == SessionPhase::kJoining ||
                    now - state_.stop_at > state_.options.timings.dead_after);
  for (uint32_t s = state_.links.num_shards(); s-- > 0;) {
    if (s == 0) {  // Only shard 0 uses counters, pulse marks and requests.
      beat->set_pulse_mark(state_.pulse_mark);
      *beat->mutable_counters() = counters_;
      if (state_.checkpoint_requests != 0)
        beat->set_checkpoint_requests(state_.checkpoint_requests);
      if (must_stop) beat->set_stop(static_cast<uint32_t>(ExitCode(state_.stop_status)));
    }
    if (state_.links.IsUp({s, 0}) || (s == 0 && sends_even_if_down))
      out->push_back(MakeSend({s, 0}, message));
  }
}

}  // namespace tern::protocol
