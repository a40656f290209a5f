#include "common/protocol/members/shard0/admission.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"

namespace tern::protocol {

namespace {

using Presence = Roster::Worker::Presence;

// The longest name of a host, and the longest text about a worker's data, that are kept of a hello.
constexpr size_t kMaxHostBytes = 256, kMaxDataBytes = 256;

void EmitLogLimited(const std::string& text, RateLimiter* limiter, Time now, ControlActions* out) {
  if (limiter->Allow(now)) EmitLog(text + limiter->TakeAndMore(), out);
}

Message MakeFinalRefusal(Code code, const std::string& sentence) {
  return MakeRefusal(code, sentence, pb::Refuse::leave);
}

// How the sender's data differ from those of a live worker of another rank; else "". Those that are
// admitted have the same, so one is enough.
std::string DifferenceToOthers(const Roster& roster, const pb::Hello& hello) {
  if (hello.data_digest() == 0) return "";
  for (const Roster::Worker& worker : roster.workers) {
    const bool is_other = worker.live() && worker.hello.rank() != hello.rank();
    if (is_other && worker.hello.data_digest() != 0) return DataDifference(hello, worker.hello);
  }
  return "";
}

}  // namespace

void Admission::OnHello(Peer from, const pb::Hello& received, Time now, ControlActions* out) {
  pb::Hello hello = received;
  hello.set_host(Printable(received.host(), kMaxHostBytes));
  if (hello.has_data_text())
    hello.set_data_text(PrintableSentence(received.data_text(), kMaxDataBytes));
  std::string for_log;
  if (Status check_status =
          CheckHello(hello, job_.options.expected_hello, job_.options.keys, &for_log);
      !check_status.ok()) {
    const std::string& why = for_log.empty() ? check_status.message() : for_log;
    const bool is_shard = hello.role() == pb::Hello::shard;
    EmitLogLimited(Cat("refused a hello from ", hello.host(), " as ",
                       is_shard ? "shard " : "worker ", hello.rank(), ": ", why),
                   &misfit_log_, now, out);
    std::vector<Roster::Worker>& workers = job_.roster.workers;
    if (!is_shard && hello.rank() < workers.size())
      workers[hello.rank()].why_refused = check_status.message();
    return EmitSend(from, MakeFinalRefusal(check_status.code(), check_status.message()), out);
  }
  if (hello.role() == pb::Hello::shard) return OnShardHello(from, hello, now, out);
  OnWorkerHello(from, hello, now, out);
}

void Admission::OnShardHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  const auto found_shard = job_.roster.shards.find(hello.rank());
  if (found_shard == job_.roster.shards.end()) {
    return EmitSend(
        from, MakeFinalRefusal(Code::kMismatch, Cat("there is no server shard ", hello.rank())),
        out);
  }
  if (!MayTakeShardPlace(&found_shard->second, from, hello, now, out)) return;
  const uint64_t previous_incarnation = found_shard->second.incarnation;
  const bool was_restarted =
      previous_incarnation != 0 && previous_incarnation != hello.incarnation();
  Roster::Shard shard{from, hello.incarnation(), now, false, hello, 0, Time(0)};
  const Roster::Shard& before = found_shard->second;
  if (before.hello.incarnation() == hello.incarnation()) {
    shard.failed_checkpoints = before.failed_checkpoints;
    shard.failed_before = before.failed_before;
  } else {
    shard.failed_before = before.failed_before + before.failed_checkpoints;
  }
  found_shard->second = std::move(shard);
  Message message;
  message.head.mutable_welcome()->set_incarnation(job_.options.incarnation);
  EmitSend(from, std::move(message), out);
  if (!job_.running()) return gathering_.RunIfGathered(now, out);
  if (was_restarted && job_.options.begins_from_shards) {
    return going_back_.GoBack(Cat("server shard ", hello.rank(), " was started again"), now, out);
  }
  const bool is_new_process = previous_incarnation != hello.incarnation();
  if (is_new_process && going_back_.GoBackForShard(hello.rank(), hello, now, out)) return;
  membership_.TellShard(from, out);
}

// A live shard sends a pulse every heartbeat interval. So the process that has the place is surely
// alive if it was heard long enough after its rival (the sender) first asked for the place.
bool Admission::MayTakeShardPlace(Roster::Shard* place, Peer from, const pb::Hello& hello, Time now,
                                  ControlActions* out) const {
  const Timings& timings = job_.options.timings;
  const bool is_free = place->incarnation == 0 || place->incarnation == hello.incarnation() ||
                       now - place->heard_at > 2 * timings.heartbeat ||
                       !job_.options.safeguards.fence_shards;
  if (is_free) return true;
  if (place->rival_incarnation != hello.incarnation()) {
    place->rival_incarnation = hello.incarnation();
    place->rival_since = now;
  }
  const bool is_alive = place->heard_at > place->rival_since + timings.suspect_after;
  EmitSend(from,
           MakeRefusal(Code::kNotAllowed,
                       Cat("the place of server shard ", hello.rank(),
                           " is taken by another process", is_alive ? ", which is alive" : ""),
                       is_alive ? pb::Refuse::leave : pb::Refuse::retry),
           out);
  return false;
}

bool Admission::FitsTheJob(Peer from, const pb::Hello& hello, ControlActions* out) const {
  const Roster& roster = job_.roster;
  std::string sentence;
  if (hello.rank() >= roster.workers.size()) {
    sentence = Cat("there is no worker ", hello.rank(), ": the job has ", roster.workers.size());
  } else if (job_.options.steps != 0 && hello.steps() != job_.options.steps) {
    sentence = Cat("worker ", hello.rank(), " counts ", hello.steps(), " steps, the job has ",
                   job_.options.steps);
  } else if (std::string difference = DifferenceToOthers(roster, hello); !difference.empty()) {
    sentence = std::move(difference);
  } else if (roster.steps != 0 && hello.steps() != roster.steps) {
    sentence = Cat("worker ", hello.rank(), " counts ", hello.steps(), " steps, others ",
                   roster.steps, "; give all workers the same data");
  }
  if (sentence.empty()) return true;
  if (hello.rank() < roster.workers.size())
    job_.roster.workers[hello.rank()].why_refused = sentence;
  EmitSend(from, MakeFinalRefusal(Code::kMismatch, sentence), out);
  return false;
}

void Admission::OnWorkerHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out) {
  if (!FitsTheJob(from, hello, out)) return;
  Roster::Worker& worker = job_.roster.workers[hello.rank()];
  const bool is_retired =
      std::find(worker.retired_incarnations.begin(), worker.retired_incarnations.end(),
                hello.incarnation()) != worker.retired_incarnations.end();
  if (is_retired ||
      (worker.incarnation == hello.incarnation() && worker.presence == Presence::kLost)) {
    return EmitSend(from, membership_.AnswerToRemovedWorker(hello.incarnation()), out);
  }
  if (worker.incarnation != hello.incarnation()) {
    if (!MayTakeRank(&worker, from, hello, now, out)) return;
    return Admit(&worker, from, hello, now, out);
  }
  worker.peer = from;  // a repeated hello, perhaps on a new connection
  liveness_.Hear(&worker, now);
  liveness_.OnPulseMark(&worker, hello.pulse_mark(), /*is_idle=*/!job_.running(), hello.progress());
  worker.hello = hello;
  worker.joining &= hello.fresh();
  worker.joins_from_begin &= hello.fresh();
  if (job_.running()) membership_.WelcomeMember(worker, out);
}

bool Admission::MayTakeRank(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
                            ControlActions* out) {
  // A new process has made no progress yet, so this is the net thread of the process that hangs.
  if (worker->is_stuck && hello.progress() != 0 && hello.progress() == worker->progress) {
    EmitSend(from, MakeRefusal(Code::kNotAllowed, "its compute thread hangs", pb::Refuse::retry),
             out);
    return false;
  }
  const bool shrinks = job_.options.elasticity.shrinks_on_loss();
  if (shrinks && job_.running() && !hello.fresh() && !hello.done()) {
    // The other workers have continued without the state that the sender holds.
    EmitSend(from, membership_.AnswerToRemovedWorker(hello.incarnation()), out);
    return false;
  }
  const bool is_lost = worker->presence == Presence::kLost || worker->is_awaited;
  if (is_lost && !hello.fresh() && hello.epoch() < worker->first_epoch) {
    EmitSend(from,
             MakeFinalRefusal(Code::kPeerLost, Cat("another process had rank ", hello.rank(),
                                                   " while this worker was away; start it again")),
             out);
    return false;
  }
  if (is_lost || worker->presence == Presence::kAbsent) return true;
  // A hello with a later epoch (number of the membership) means: shard 0 restarted, and before that
  // the sender had replaced the process that has the rank now. But a worker without state must not
  // replace a worker with state.
  const bool loses_state = hello.fresh() && !worker->hello.fresh();
  if (!job_.running() && hello.epoch() > worker->epoch && !loses_state) {
    // Anybody can claim an epoch. So the sender must know the run, which no stranger knows. Until a
    // worker that knows it, too, has said hello, the sender is told to retry.
    if (!job_.options.safeguards.ask_for_run || job_.roster.KnowsRun(hello.run())) return true;
    EmitSend(from, MakeRefusal(Code::kNotAllowed, "the rank is taken", pb::Refuse::retry), out);
    return false;
  }
  Refuse(worker, from, hello, now, out);
  return false;
}

// The worker that has the rank may just have died, or may hang. So the sender must retry until one
// of two things is known: that worker is lost, or it answered a pulse that was sent after the
// sender's first hello, and does not hang.
void Admission::Refuse(Roster::Worker* holder, Peer from, const pb::Hello& hello, Time now,
                       ControlActions* out) {
  if (holder->rival.incarnation != hello.incarnation()) {
    holder->rival = {hello.incarnation(), job_.num_pulses, now, std::nullopt, false};
    liveness_.OnRival(now, out);
  }
  holder->rival.heard_at = now;
  if (!holder->rival.is_refuted) {
    return EmitSend(from, MakeRefusal(Code::kNotAllowed, "the rank is taken", pb::Refuse::retry),
                    out);
  }
  EmitSend(
      from,
      MakeFinalRefusal(Code::kNotAllowed, Cat("rank ", hello.rank(), " is taken by ",
                                              job_.roster.Name(hello.rank()), ", which is alive")),
      out);
  EmitLogLimited(Cat("refused a second process of rank ", hello.rank(), " on ", hello.host()),
                 &rival_log_, now, out);
}

void Admission::Admit(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now,
                      ControlActions* out) {
  const bool has_returned = worker->presence == Presence::kLost || worker->is_awaited;
  const uint64_t first_epoch = worker->first_epoch;
  // Whether this worker comes without state, and no other worker holds the state of the job or may
  // return with it.
  const bool nobody_has_state = job_.running() && job_.options.workers_hold_state &&
                                hello.fresh() && !job_.roster.MayHoldStateBeside(worker);
  const std::string restart_sentence = job_.roster.Name(hello.rank()) + " was started again";
  if (nobody_has_state && job_.CanGoBack()) {
    going_back_.OnStateLost(restart_sentence, Code::kPeerLost, now, out);
  } else if (job_.running() && going_back_.RequiresAllToGoBack(hello, job_.roster.run)) {
    going_back_.GoBack(going_back_.WhyAllGoBackFor(hello.rank()), now, out);
  }
  AssignRank(worker, from, hello, now);
  job_.LogComing(hello.rank(),
                 job_.roster.Name(hello.rank()) + (has_returned ? " has come back" : " is here"),
                 now, out);
  if (!job_.running()) return gathering_.RunIfGathered(now, out);
  if (!nobody_has_state && going_back_.BeginsOwnStateAnew(hello, job_.roster.run)) {
    EmitLog(job_.roster.Name(hello.rank()) +
                " has fewer than two checkpoints of this run on its disk: what it has of its own "
                "(local weights, codecs' memories) begins anew",
            out);
  }
  if (nobody_has_state) return going_back_.OnStateLost(restart_sentence, Code::kPeerLost, now, out);
  worker->joining = job_.options.workers_hold_state && hello.fresh();
  worker->epoch = job_.roster.epoch + 1;
  worker->first_epoch = hello.fresh() ? worker->epoch : first_epoch;
  membership_.PublishNext(out);
  membership_.WelcomeMember(*worker, out);
}

void Admission::AssignRank(Roster::Worker* worker, Peer from, const pb::Hello& hello, Time now) {
  liveness_.OnNewcomer(*worker, hello.rank(), now);
  worker->Retire();
  worker->CountFor(hello);
  worker->presence = Presence::kPresent;
  worker->incarnation = hello.incarnation();
  worker->why_refused.clear();
  worker->epoch = worker->first_epoch = hello.epoch();
  worker->peer = from;
  worker->hello = hello;
  worker->heard_at = worker->advanced_at = now;
  worker->applied = hello.applied();
  job_.roster.steps = hello.steps();
}

}  // namespace tern::protocol
