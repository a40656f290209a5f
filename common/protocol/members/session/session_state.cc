#include "common/protocol/members/session/session_state.h"

#include <utility>

#include "common/base/invariants.h"

namespace tern::protocol {

namespace {

constexpr const char* kPhases[] = {"joining", "fetching", "installing",
                                   "running", "leaving",  "ended"};

const char* NameOf(SessionPhase phase) { return kPhases[static_cast<size_t>(phase)]; }

bool MayBecome(SessionPhase from, SessionPhase to) {
  switch (from) {
    case SessionPhase::kJoining:
      return true;
    case SessionPhase::kFetching:
      return to != SessionPhase::kFetching && to != SessionPhase::kRunning;
    case SessionPhase::kInstalling:
      return to != SessionPhase::kFetching && to != SessionPhase::kInstalling;
    case SessionPhase::kRunning:
    case SessionPhase::kLeaving:
      return to == SessionPhase::kJoining || to == SessionPhase::kLeaving ||
             to == SessionPhase::kEnded;
    case SessionPhase::kEnded:
      return false;
  }
  return false;
}

}  // namespace

SessionState::SessionState(SessionOptions given)
    : options(std::move(given)),
      incarnation(options.incarnation),
      exchange({options.rank, incarnation, options.credit_bytes, options.timings.resend_after,
                options.is_elastic, options.in_plan}),
      links(
          options.data_lanes, options.servers, [this](LaneRef lane) { return MakeHello(lane); },
          &exchange, std::max(options.timings.resend_after, options.timings.suspect_after)) {}

bool SessionState::Become(SessionPhase next) {
  const bool is_allowed = MayBecome(phase_, next);
  TERN_REQUIRES(is_allowed, "a session that is ", NameOf(phase_), " cannot become ", NameOf(next));
  if (is_allowed) phase_ = next;
  return is_allowed;
}

Message SessionState::MakeHello(LaneRef lane) const {
  Message message;
  pb::Hello* hello = message.head.mutable_hello();
  *hello = options.hello;
  hello->set_role(pb::Hello::worker);
  hello->set_rank(options.rank);
  hello->set_incarnation(incarnation);
  hello->set_lane(lane.lane);
  hello->set_applied(has_state() ? exchange.applied() : 0);
  hello->set_fresh(!has_state());
  hello->set_progress(progress);
  hello->set_epoch(epoch);
  hello->set_floor(exchange.held().floor());
  hello->set_newest_held(exchange.held().newest_round(lane));
  if (stop_after != 0) hello->set_stop_after(stop_after);
  hello->set_done(leaving() && leave_status.ok());
  if (run != 0) hello->set_run(run);
  if (!has_state() && lane == LaneRef{}) {
    hello->set_keeps_own(options.keeps_own);
    if (options.has_first_state) hello->set_first_state(true);
    options.saved_checkpoints.AddTo(hello);
  }
  if (lane.lane != 0) {
    hello->clear_key_digests();
  } else {
    message.payload = options.tensor_table;
  }
  if (pulse_mark != 0 && lane == LaneRef{}) hello->set_pulse_mark(pulse_mark);
  if (options.shrink && lane == LaneRef{})
    hello->mutable_gone()->Add(absent_ranks.begin(), absent_ranks.end());
  return message;
}

Status SessionState::Check() const {
  const bool needs_state = phase_ == SessionPhase::kFetching || phase_ == SessionPhase::kInstalling;
  TERN_HOLDS(phase_ != SessionPhase::kRunning || has_state(), "session: running, and has no state");
  TERN_HOLDS(!needs_state || !has_state(), "session: ", NameOf(phase_), ", and has state");
  TERN_HOLDS(!needs_state || origin.has_value(), "session: ", NameOf(phase_),
             ", and shard 0 has said no Welcome");
  if (ended()) return Ok();
  TERN_HOLDS(phase_ != SessionPhase::kJoining || !links.AllUp(),
             "session: joining, and all its links are up");
  return links.Check();
}

void EmitOutgoing(std::vector<Exchange::Outgoing> outgoing, SessionActions* out) {
  for (Exchange::Outgoing& next : outgoing) {
    out->push_back(MakeSend(next.lane, std::move(next.message)));
    if (next.to_leader) out->back().type = SessionAction::Type::kTellLeader;
  }
}

}  // namespace tern::protocol
