#include "common/protocol/members/shard0/ending.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/invariants.h"
#include "common/base/text.h"

namespace tern::protocol {

using Presence = Roster::Worker::Presence;

void Ending::OnStop(Code code, Time now, ControlActions* out) {
  if (job_.ending() || job_.IsStopping()) return;
  job_.stop_code = code;
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  const bool is_any_missing =
      std::any_of(workers.begin(), workers.end(), [this](const Roster::Worker& worker) {
        return worker.live() ? worker.is_awaited : !job_.options.elasticity.shrinks_on_loss();
      });
  if (!job_.running() || is_any_missing)
    return Abort(code, "stopped by a signal while not all workers were there", now, out);
  for (const auto& [shard, follower] : job_.roster.shards) {
    if (!follower.is_silent) continue;
    return Abort(code, Cat("stopped by a signal while server shard ", shard, " was silent"), now,
                 out);
  }
  EmitNormalLog("stopping: the round in progress is the last", out);
  out->emplace_back().type = ControlAction::Type::kStop;
}

void Ending::OnStopFrom(const std::string& who, uint32_t code, Time now, ControlActions* out) {
  if (job_.ending()) return;
  if (!job_.IsStopping()) EmitNormalLog(who + " was asked to stop", out);
  const bool is_interrupted = code == static_cast<uint32_t>(Code::kInterrupted);
  OnStop(is_interrupted ? Code::kInterrupted : Code::kTerminated, now, out);
}

void Ending::EndIfAllDone(Time now, ControlActions* out) {
  bool any_done = false;
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (job_.running() && job_.options.elasticity.shrinks_on_loss() && !worker.live()) continue;
    if (worker.presence != Presence::kDone) return;
    any_done = true;
  }
  if (!any_done) return;
  const Status status = FinalStatus();
  Message end;
  end.head.mutable_end()->set_code(static_cast<uint32_t>(ExitCode(status)));
  end.head.mutable_end()->set_sentence(status.message());
  if (const uint64_t last_step = LastStepAtEnd(); last_step != 0)
    end.head.mutable_end()->set_last_step(last_step);
  job_.Become(JobPhase::kEnding);
  farewell_.Start(std::move(end), status, Recipients(now), job_.options.timings.hello_retry, now,
                  out);
}

Status Ending::FinalStatus() const {
  const uint64_t job_steps = job_.roster.steps, last_step = std::min(job_steps, StepsDone());
  uint64_t stop_when_step = 0;
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (worker.presence != Presence::kDone) continue;
    stop_when_step = std::max(stop_when_step, worker.figures.evaluations().last_step());
  }
  // A signal during the last evaluation comes too late to stop a job with rounds. Without rounds a
  // worker does not say how many steps the job has made. A program's job has no length (0), and
  // where train.stop_when does not end the job, stop_when_step is 0.
  const bool did_last_step = last_step == job_steps || last_step == stop_when_step;
  const bool is_complete = job_.options.workers_hold_state && did_last_step && last_step != 0;
  if (job_.IsStopping() && !is_complete)
    return Status(job_.stop_code, "the job was stopped in order by a signal");
  if (!job_.options.workers_hold_state || did_last_step) return Ok();
  // The workers stopped early, but this process received no stop request: the request went to an
  // earlier process of shard 0.
  return Status(Code::kTerminated,
                Cat("the job was stopped in order after step ", last_step, " of ", job_steps));
}

uint64_t Ending::StepsDone() const {
  uint64_t steps_done = std::numeric_limits<uint64_t>::max();
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (worker.presence == Presence::kDone) steps_done = std::min(steps_done, worker.steps_done);
  }
  return steps_done;
}

uint64_t Ending::LastStepAtEnd() const {
  const auto& last_checkpoint_step = job_.options.last_checkpoint_step;
  return last_checkpoint_step ? last_checkpoint_step(StepsDone()) : LastStep();
}

uint64_t Ending::LastStep() const {
  const bool must_name = job_.options.find_last_step && job_.options.safeguards.name_last_step;
  return must_name ? job_.options.find_last_step() : 0;
}

// A daemon that has been silent for a while, even a worker that counts as lost, may be cut off only
// for that while; and a worker whose connection is closed may be about to connect again. If it did
// not hear of the end, it would wait long for this shard. After a signal this process must end
// soon, so it waits only for those that are heard.
Time Ending::AbortDeadline(const Farewell::Recipient& recipient, Time now) const {
  const Timings& timings = job_.options.timings;
  const Time last_deadline = now + 2 * timings.dead_after;
  if (recipient.peer == 0) return Time{};
  const Time max_silence = job_.IsStopping() ? timings.suspect_after : 2 * timings.dead_after;
  if (recipient.role == pb::Hello::shard) {
    const Roster::Shard& shard = job_.roster.shards.at(recipient.rank);
    return now - shard.heard_at <= max_silence ? last_deadline : Time{};
  }
  const Roster::Worker& worker = job_.roster.workers[recipient.rank];
  if (worker.has_left || now - worker.heard_at > max_silence) return Time{};
  if (worker.closed_at == Time{}) return last_deadline;
  return std::min(last_deadline, worker.closed_at + ReconnectTime(timings));
}

void Ending::Abort(Code code, const std::string& sentence, Time now, ControlActions* out) {
  // After a divergence the newest weights are useless, and an older checkpoint may be good.
  AbortAt(code == Code::kDiverged ? 0 : LastStep(), code, sentence, now, out);
}

void Ending::AbortForShard(const Status& error, const std::string& sentence, Time now,
                           ControlActions* out) {
  if (error.code() != Code::kBadData) return Abort(error.code(), sentence, now, out);
  AbortAt(0, error.code(), sentence, now, out);
}

void Ending::AbortAt(uint64_t last_step, Code code, const std::string& sentence, Time now,
                     ControlActions* out) {
  Message message;
  message.head.mutable_abort()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_abort()->set_sentence(sentence);
  if (last_step != 0) message.head.mutable_abort()->set_last_step(last_step);
  std::vector<Farewell::Recipient> recipients = Recipients(now);
  for (Farewell::Recipient& recipient : recipients)
    recipient.awaited_until = AbortDeadline(recipient, now);
  job_.Become(JobPhase::kEnding);
  farewell_.Start(std::move(message), Status(code, sentence), std::move(recipients),
                  job_.options.timings.hello_retry, now, out);
}

std::vector<Farewell::Recipient> Ending::Recipients(Time now) const {
  // A peer may need up to dead_after to notice that its connection is broken.
  const Time deadline = now + 2 * job_.options.timings.dead_after;
  std::vector<Farewell::Recipient> recipients;
  for (uint32_t rank = 0; rank < job_.roster.workers.size(); ++rank) {
    const Roster::Worker& worker = job_.roster.workers[rank];
    recipients.push_back({pb::Hello::worker, rank, worker.incarnation, worker.peer,
                          worker.live() ? deadline : Time{}});
  }
  for (const auto& [shard, follower] : job_.roster.shards)
    recipients.push_back({pb::Hello::shard, shard, 0, follower.peer, deadline});
  return recipients;
}

Status Ending::Check() const {
  TERN_HOLDS(farewell_.started() == job_.ending(), "coordinator: the farewell ",
             farewell_.started() ? "is being said" : "was not said", ", and the job is ",
             job_.ending() ? "" : "not ", "ending");
  return Ok();
}

}  // namespace tern::protocol
