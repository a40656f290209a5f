#include "common/protocol/members/session/leaving.h"

#include <utility>

namespace tern::protocol {

void Leaving::Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
                     uint64_t steps, Time now, SessionActions* out) {
  state_.Become(SessionPhase::kLeaving);
  leaving_since_ = now;
  state_.leave_status = status;
  bye_.set_code(static_cast<uint32_t>(ExitCode(status)));
  bye_.set_sentence(status.message());
  *bye_.mutable_counters() = counters;
  *bye_.mutable_figures() = figures;
  bye_.set_steps(steps);
  SendBye(now, out);
}

void Leaving::SendBye(Time now, SessionActions* out) {
  Message message;
  bye_.set_rank(state_.options.rank);
  bye_.set_incarnation(state_.incarnation);
  *message.head.mutable_bye() = bye_;
  bye_at_ = now;
  out->push_back(MakeSend({0, 0}, std::move(message)));
}

void Leaving::Stop(const Status& status, Time now, SessionActions* out) {
  if (!state_.stop_status.ok() || state_.failed()) return;
  state_.stop_status = status;
  state_.stop_at = now;
  LogNormal("asking server shard 0 to stop the job", out);
  heartbeats_.Send(now, out);
}

void Leaving::OnTimer(Time now, SessionActions* out) {
  const Timings& timings = state_.options.timings;
  if (state_.leaving() && now - bye_at_ >= timings.heartbeat) SendBye(now, out);
  const Time heard_at = state_.links.shard(0).heard_at;
  if (!state_.stop_status.ok() && now - heard_at > timings.dead_after) {
    return LeaveWith(
        Status(state_.stop_status.code(), "stopped by a signal while server shard 0 was not there"),
        out);
  }
  if (!state_.leaving()) return;
  // A failed worker waits only briefly for shard 0's answer. A worker that has finished waits for
  // shard 0's message End, because others may need what the worker keeps; but it ends when shard 0
  // has been silent too long.
  const Time silence = now - (state_.failed() ? leaving_since_ : heard_at);
  if (silence > (state_.failed() ? timings.dead_after : timings.server_return_timeout))
    EndWith(state_.leave_status, out);
}

void Leaving::OnEnd(const pb::End& end, SessionActions* out) {
  Status status = StatusOf(end);
  if (status.ok() && !state_.leaving())
    status = Status(Code::kPeerLost, "shard 0 ended the job before this worker had finished");
  OnFarewell(status, out);
}

void Leaving::AnswerFarewell(SessionActions* out) const {
  Message answer;
  answer.head.mutable_end();
  out->push_back(MakeSend({0, 0}, std::move(answer)));
}

void Leaving::OnFarewell(const Status& status, SessionActions* out) {
  AnswerFarewell(out);
  EndWith(state_.leave_status.ok() ? status : state_.leave_status, out);
}

void Leaving::LeaveWith(const Status& status, SessionActions* out) {
  Message message;
  pb::Bye* bye = message.head.mutable_bye();
  bye->set_rank(state_.options.rank);
  bye->set_incarnation(state_.incarnation);
  bye->set_code(static_cast<uint32_t>(ExitCode(status)));
  bye->set_sentence(status.message());
  out->push_back(MakeSend({0, 0}, std::move(message)));
  AnswerFarewell(out);
  EndWith(status, out);
}

void Leaving::EndWith(Status status, SessionActions* out) {
  if (!state_.Become(SessionPhase::kEnded)) return;
  out->push_back(MakeAction(SessionAction::Type::kEnded));
  out->back().status = std::move(status);
}

}  // namespace tern::protocol
