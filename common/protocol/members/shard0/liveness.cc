#include "common/protocol/members/shard0/liveness.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/text.h"

namespace tern::protocol {

namespace {

using Presence = Roster::Worker::Presence;

constexpr uint64_t kLateRoundsPerLog = 100;  // a worker's late rounds between two log lines
// A worker that plans its network for longer than this many start timeouts counts as lost.
constexpr int kStartsToPlan = 10;

Time PlanningTimeOf(const Roster::Worker& worker) {
  constexpr double kMaxSeconds = 1e9;  // a worker may send any number
  const double seconds = worker.counters.planning_s();
  return Time(static_cast<int64_t>(seconds > 0 ? 1e9 * std::min(seconds, kMaxSeconds) : 0));
}

}  // namespace

void Liveness::Start(Time now) {
  job_.gathering_since = awaited_logged_at_ = now;
  for (uint32_t s = 1; s < job_.options.shards; ++s) job_.roster.shards[s].heard_at = now;
}

void Liveness::Hear(Roster::Worker* worker, Time now) {
  if (now - worker->heard_at > job_.options.timings.suspect_after && HearsNobody(now)) {
    ExcuseSilence(now);
    for (Roster::Worker& other : job_.roster.workers) other.is_awaited = false;
  }
  worker->heard_at = now;
  worker->closed_at = Time{};
}

void Liveness::OnUnreachable(Peer peer, Time now) {
  Roster::Worker* const worker = job_.roster.FindByPeer(peer);
  if (worker != nullptr && worker->live() && worker->closed_at == Time{}) worker->closed_at = now;
}

void Liveness::OnHeartbeat(Roster::Worker* worker, const pb::Heartbeat& beat, Time now,
                           ControlActions* out) {
  if (worker->suspect) EmitNormalLog(job_.roster.Name(beat.rank()) + " is heard again", out);
  worker->suspect = false;
  Hear(worker, now);
  worker->counters = beat.counters();
  if (std::string slowness_text = stragglers_.OnCounters(beat.rank(), worker->counters, now);
      !slowness_text.empty())
    EmitLog(job_.roster.Name(beat.rank()) + slowness_text, out);
  LogIfLate(beat.rank(), out);
  LogIfCheckpointsFail(job_.roster.Name(beat.rank()), worker->counters.failed_checkpoints(),
                       &worker->logged_failed_checkpoints, out);
  OnPulseMark(worker, beat.pulse_mark(), beat.waiting(), beat.progress());
  worker->is_waiting = beat.waiting();
  if (beat.waiting() || beat.progress() != worker->progress) worker->advanced_at = now;
  worker->progress = beat.progress();
  if (beat.has_applied()) {
    worker->joining = worker->joins_from_begin = false;
    worker->applied = std::max(worker->applied, beat.applied());
    job_.lane.OnApplied(beat.rank(), beat.incarnation(), beat.applied());
  }
}

void Liveness::OnRival(Time now, ControlActions* out) {
  if (now - pulse_sent_at_ >= job_.options.timings.heartbeat / 4) SendPulses(now, out);
}

void Liveness::OnPulseMark(Roster::Worker* worker, uint64_t mark, bool is_idle,
                           uint64_t progress) const {
  Roster::Worker::Rival& rival = worker->rival;
  if (rival.incarnation == 0 || job_.PulseOfMark(mark) <= rival.num_pulses) return;
  rival.is_refuted |= is_idle || (rival.progress.has_value() && *rival.progress != progress);
  if (!rival.progress.has_value()) rival.progress = progress;
}

void Liveness::OnNewcomer(const Roster::Worker& worker, uint32_t rank, Time now) {
  if (worker.is_awaited || HearsNobody(now)) ExcuseSilence(now);
  stragglers_.Forget(rank);
}

void Liveness::OnTimer(Time now, ControlActions* out) {
  if (now - pulse_sent_at_ >= job_.options.timings.heartbeat) SendPulses(now, out);
  for (uint32_t rank = 0; rank < job_.roster.workers.size() && !job_.ending(); ++rank)
    CheckSilence(rank, now, out);
  if (!job_.ending()) CheckShards(now, out);
  if (!job_.ending()) LogWhoIsAwaited(now, out);
}

void Liveness::LogWhoIsAwaited(Time now, ControlActions* out) {
  const bool waits_for_lost = job_.options.elasticity.on_loss == OnLoss::kWait;
  std::vector<std::string> names;
  for (uint32_t rank = 0; rank < job_.roster.workers.size(); ++rank) {
    const Roster::Worker& worker = job_.roster.workers[rank];
    const bool is_awaited =
        worker.is_awaited || (waits_for_lost && worker.presence == Presence::kLost);
    if (job_.running() ? is_awaited : !worker.live()) names.push_back(Cat("worker ", rank));
    const Time planning = PlanningTimeOf(worker);
    if (job_.running() && worker.live() && planning > Time(0))
      names.push_back(
          Cat("worker ", rank, " (it plans its network for ", SecondsText(planning), ")"));
  }
  for (const auto& [shard, follower] : job_.roster.shards) {
    if (follower.is_silent) names.push_back(Cat("server shard ", shard));
  }
  if (!names.empty() && now - awaited_logged_at_ < kAwaitedLogInterval) return;
  awaited_logged_at_ = now;
  if (!names.empty()) EmitLog("still waiting for " + Join(names), out);
}

void Liveness::SendPulses(Time now, ControlActions* out) {
  pulse_sent_at_ = now;
  ++job_.num_pulses;
  Message message;
  pb::Pulse* pulse = message.head.mutable_pulse();
  pulse->set_incarnation(job_.options.incarnation);
  pulse->set_epoch(job_.running() ? job_.roster.epoch : 0);
  pulse->set_floor(job_.lane.floor());
  pulse->set_mark(job_.PulseMark());
  for (uint32_t rank = 0; rank < job_.roster.workers.size(); ++rank) {
    if (!job_.roster.workers[rank].live()) pulse->add_absent(rank);
  }
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (worker.peer != 0) EmitSend(worker.peer, message, out);
  }
  for (const auto& [shard, follower] : job_.roster.shards) {
    if (follower.peer != 0) EmitSend(follower.peer, message, out);
  }
}

Time Liveness::ReconnectTimeout(const Roster::Worker& worker, Time now) const {
  const Timings& timings = job_.options.timings;
  const Time longest_retry = 5 * timings.hello_retry;
  const bool has_successor = job_.options.elasticity.shrinks_on_loss() &&
                             worker.rival.incarnation != 0 &&
                             now - worker.rival.heard_at < longest_retry;
  const bool can_undo =
      job_.options.elasticity.on_loss == OnLoss::kWait || has_successor || !job_.running();
  return can_undo ? ReconnectTime(timings) : 2 * timings.heartbeat + timings.suspect_after;
}

bool Liveness::IsDisconnected(const Roster::Worker& worker, Time now) const {
  return worker.closed_at != Time{} && now - worker.closed_at > ReconnectTimeout(worker, now) &&
         !HearsNobody(now);
}

void Liveness::CheckSilence(uint32_t rank, Time now, ControlActions* out) {
  Roster::Worker& worker = job_.roster.workers[rank];
  const Timings& timings = job_.options.timings;
  if (worker.presence == Presence::kLost && job_.options.elasticity.on_loss == OnLoss::kWait &&
      now - worker.lost_at > timings.wait_timeout) {
    return ending_.Abort(Code::kPeerLost,
                         Cat(job_.roster.Name(rank), " was lost and nobody took its place within ",
                             SecondsText(timings.wait_timeout)),
                         now, out);
  }
  if (!worker.live()) return;
  if (IsDisconnected(worker, now)) return HandleLoss(rank, {"its connection is closed"}, now, out);
  const Time silence = now - std::max(worker.heard_at, worker.excused_at);
  if (silence > timings.dead_after) {
    if (!worker.joining && HearsNobody(now)) return WaitForSilentWorker(rank, now, out);
    return HandleLoss(rank, {"silent for " + SecondsText(silence)}, now, out);
  }
  if (job_.running() && worker.presence == Presence::kPresent &&
      now - worker.advanced_at > ProgressTimeout(timings, worker.counters)) {
    HandleLoss(rank,
               {"its compute thread has not moved for " + SecondsText(now - worker.advanced_at)},
               now, out);
    worker.is_stuck = worker.presence == Presence::kLost;
    return;
  }
  if (job_.running() && PlanningTimeOf(worker) > kStartsToPlan * timings.start_timeout) {
    return HandleLoss(rank, {"it plans its network for " + SecondsText(PlanningTimeOf(worker))},
                      now, out);
  }
  const bool is_closed = worker.closed_at != Time{};
  if ((silence > timings.suspect_after || is_closed) && !worker.suspect) {
    worker.suspect = true;
    EmitLog(Cat(job_.roster.Name(rank), " is suspect: ",
                is_closed ? "its connection is closed" : "silent for " + SecondsText(silence),
                ", at ", PlaceOf(worker, worker.applied)),
            out);
  }
}

bool Liveness::HearsNobody(Time now) const {
  if (!job_.running() || job_.options.elasticity.on_loss == OnLoss::kFail || job_.IsStopping() ||
      !job_.options.safeguards.heed_own_silence)
    return false;
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  return std::none_of(workers.begin(), workers.end(), [&](const Roster::Worker& worker) {
    return worker.live() && !worker.joining &&
           now - worker.heard_at <= job_.options.timings.suspect_after;
  });
}

void Liveness::ExcuseSilence(Time now) {
  Time last_heard_at{};
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (worker.live()) last_heard_at = std::max(last_heard_at, worker.heard_at);
  }
  for (Roster::Worker& worker : job_.roster.workers) {
    if (!worker.live() || worker.heard_at + job_.options.timings.suspect_after < last_heard_at)
      continue;
    worker.excused_at = worker.advanced_at = now;
    if (worker.closed_at != Time{}) worker.closed_at = now;
  }
}

void Liveness::WaitForSilentWorker(uint32_t rank, Time now, ControlActions* out) {
  Roster::Worker& worker = job_.roster.workers[rank];
  const Time silence = now - worker.heard_at;
  const Time wait_timeout = job_.options.timings.wait_timeout;
  const std::string what = job_.roster.Name(rank) + " is silent for " + SecondsText(silence);
  if (silence > wait_timeout) {
    if (job_.options.elasticity.shrinks_on_loss())
      return HandleLoss(rank, {"silent for " + SecondsText(silence)}, now, out);
    return ending_.Abort(Code::kPeerLost, what + ", as all are who hold the state of the job", now,
                         out);
  }
  if (std::exchange(worker.is_awaited, true)) return;
  EmitLog(Cat(what,
              ", and nobody else who holds the state of the job is heard: the link of this server "
              "may be down; waiting for up to ",
              SecondsText(wait_timeout)),
          out);
}

void Liveness::CheckShards(Time now, ControlActions* out) {
  const Timings& timings = job_.options.timings;
  const Time max_silence =
      job_.running() || job_.going_back() ? timings.server_return_timeout : timings.start_timeout;
  for (auto& [shard, follower] : job_.roster.shards) {
    const Time silence = now - follower.heard_at;
    if (silence > max_silence) {
      return ending_.Abort(
          Code::kPeerLost,
          Cat("server shard ", shard, " was lost: silent for ", SecondsText(silence)), now, out);
    }
    // The last round cannot end without this shard.
    if (silence > timings.dead_after && job_.IsStopping()) {
      return ending_.Abort(
          job_.stop_code,
          Cat("stopped by a signal; server shard ", shard, " is silent for ", SecondsText(silence)),
          now, out);
    }
    if (silence > timings.dead_after && !follower.is_silent && follower.peer != 0) {
      follower.is_silent = true;
      EmitLog(Cat("server shard ", shard, " is silent for ", SecondsText(silence),
                  "; waiting for it to come back"),
              out);
    }
  }
}

// In a job without rounds the servers hold the state of the job.
std::string Liveness::PlaceOf(const Roster::Worker& worker, uint64_t applied) const {
  return job_.options.workers_hold_state ? Cat("round ", applied + 1)
                                         : Cat("step ", worker.counters.job_step() + 1);
}

void Liveness::HandleLoss(uint32_t rank, const Loss& loss, Time now, ControlActions* out) {
  Roster::Worker& worker = job_.roster.workers[rank];
  const std::string what =
      Cat(job_.roster.Name(rank), " was lost at ",
          PlaceOf(worker, std::max(worker.applied, job_.lane.floor())), ": ", loss.why);
  const OnLoss on_loss = job_.options.elasticity.on_loss;
  const bool waits = on_loss == OnLoss::kWait;
  if (!job_.running() && (waits || !job_.going_back())) {
    job_.LogGoing(rank, what, now, out);
    worker.Forget();
    if (job_.roster.NumLive() == 0) job_.roster.steps = 0;
    return;
  }
  worker.presence = Presence::kLost;
  worker.lost_at = now;
  worker.has_left = loss.has_left;
  worker.may_return = waits && !loss.has_left && !worker.joining;
  worker.joining = worker.is_awaited = false;
  if (job_.IsStopping() && !job_.options.elasticity.shrinks_on_loss())
    return ending_.Abort(job_.stop_code, "stopped by a signal; " + what, now, out);
  if (on_loss == OnLoss::kFail) return ending_.Abort(loss.code, what, now, out);
  if (!waits) return ContinueWithout(rank, what, loss.code, now, out);
  if (!job_.roster.MayHoldStateBeside(nullptr))
    return going_back_.OnStateLost(what, loss.code, now, out);
  job_.LogGoing(rank,
                Cat(what, "; waiting for its return for up to ",
                    SecondsText(job_.options.timings.wait_timeout)),
                now, out);
}

void Liveness::ContinueWithout(uint32_t rank, const std::string& what, Code code, Time now,
                               ControlActions* out) {
  // The job goes back without that worker.
  if (job_.going_back()) return job_.LogGoing(rank, what, now, out);
  if (job_.IsStopping()) code = job_.stop_code;
  const Roster& roster = job_.roster;
  const uint32_t min_workers = job_.options.elasticity.min_workers;
  const bool is_state_left = roster.MayHoldStateBeside(nullptr);
  const bool has_too_few = roster.NumLive() < min_workers;
  if (!is_state_left && !(has_too_few && job_.CanGoBack()))
    return going_back_.OnStateLost(what, code, now, out);
  if (has_too_few) {
    return ending_.Abort(
        code, Cat(what, "; ", roster.LiveText(), " are left, and workers.min is ", min_workers),
        now, out);
  }
  job_.LogGoing(rank, Cat(what, "; going on with ", roster.LiveText()), now, out);
  membership_.PublishNext(out);
  ending_.EndIfAllDone(now, out);
}

void Liveness::LogIfCheckpointsFail(const std::string& who, uint64_t num_failed,
                                    uint64_t* num_logged, ControlActions* out) {
  if (num_failed == 0 || num_failed < 2 * *num_logged) return;
  *num_logged = num_failed;
  EmitLog(Cat(who, " could not write ", num_failed,
              num_failed == 1 ? " checkpoint" : " checkpoints", " so far; its log says why"),
          out);
}

void Liveness::LogIfLate(uint32_t rank, ControlActions* out) {
  Roster::Worker& worker = job_.roster.workers[rank];
  const uint64_t late_rounds = worker.counters.late();
  if (late_rounds == 0 || (worker.logged_late_rounds != 0 &&
                           late_rounds < worker.logged_late_rounds + kLateRoundsPerLog))
    return;
  worker.logged_late_rounds = late_rounds;
  EmitLog(Cat(job_.roster.Name(rank), " was late in ", late_rounds,
              " rounds so far: they closed without its gradient"),
          out);
}

}  // namespace tern::protocol
