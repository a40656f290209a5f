// The coordinator's deadlines and the ways in which a job ends.
#include <algorithm>
#include <utility>

#include "common/base/invariants.h"
#include "common/protocol/members/coordinator.h"

namespace tern::protocol {

namespace {

using Presence = Coordinator::Worker::Presence;

constexpr uint64_t kLateAgain = 100;  // rounds between two words on one who is late

}  // namespace

void Coordinator::OnTimer(Time now, ControlActions* out) {
  const CheckedAfter checked(*this);
  if (farewell_.started()) return farewell_.OnTimer(now, out);
  if (now - pulse_at_ >= options_.timings.heartbeat) SendPulses(now, out);
  for (uint32_t rank = 0; rank < roster_.workers.size() && !farewell_.started(); ++rank)
    CheckSilence(rank, now, out);
  if (!farewell_.started()) CheckFollowers(now, out);
  if (!farewell_.started() && !gathered_ && (options_.elasticity.shrink() || going_back_))
    GatherIfComplete(now, out);
  Time deadline = started_at_ + options_.timings.start_timeout;
  // Who waits no longer for workers has yet to ask the shards.
  if (going_back_ && HasGatheredAgain(now)) deadline += options_.timings.dead_after;
  if (farewell_.started() || gathered_ || now <= deadline) return;
  std::string missing;
  bool done = false;
  for (uint32_t rank = 0; rank < roster_.workers.size(); ++rank) {
    done |= roster_.workers[rank].presence == Presence::kDone;
    if (!roster_.workers[rank].live())
      missing += (missing.empty() ? "no hello from worker " : ", ") + std::to_string(rank);
  }
  if (missing.empty()) missing = "a server shard did not say what it can go back to";
  Abort(Code::kPeerLost,
        "the job did not start" + std::string(done || going_back_ ? " again" : "") + " within " +
            SecondsText(options_.timings.start_timeout) + ": " + missing,
        now, out);
}

void Coordinator::SendPulses(Time now, ControlActions* out) {
  pulse_at_ = now;
  Message message;
  pb::Pulse* pulse = message.head.mutable_pulse();
  pulse->set_incarnation(options_.incarnation);
  pulse->set_epoch(gathered_ ? roster_.epoch : 0);
  pulse->set_floor(lane_.floor());
  for (uint32_t rank = 0; rank < roster_.workers.size(); ++rank) {
    if (!roster_.workers[rank].live()) pulse->add_absent(rank);
  }
  for (const Worker& worker : roster_.workers) {
    if (worker.peer != 0) EmitSend(worker.peer, message, out);
  }
  for (const auto& [shard, follower] : roster_.shards) {
    if (follower.peer != 0) EmitSend(follower.peer, message, out);
  }
}

// Where the job leaves it open: the larger of a minute and ten steps as this worker computes them.
Time Coordinator::ProgressTimeout(const Worker& worker) const {
  if (options_.timings.progress_timeout != Time::zero()) return options_.timings.progress_timeout;
  const double steps = static_cast<double>(std::max<uint64_t>(1, worker.counters.rounds()));
  const double ten_steps_s = 10 * worker.counters.compute_s() / steps;
  return std::max<Time>(std::chrono::minutes(1), Time(static_cast<int64_t>(ten_steps_s * 1e9)));
}

void Coordinator::CheckSilence(uint32_t rank, Time now, ControlActions* out) {
  Worker& worker = roster_.workers[rank];
  if (worker.presence == Presence::kLost && options_.elasticity.on_loss == OnLoss::kWait &&
      now - worker.lost_at > options_.timings.wait_timeout) {
    return Abort(Code::kPeerLost,
                 roster_.Name(rank) + " was lost and nobody took its place within " +
                     SecondsText(options_.timings.wait_timeout),
                 now, out);
  }
  if (!worker.live()) return;
  const Time silent = now - std::max(worker.heard_at, worker.excused_at);
  if (silent > options_.timings.dead_after) {
    if (!worker.joining && HearsNobody(now)) return Await(rank, now, out);
    return Lose(rank, {"silent for " + SecondsText(silent)}, now, out);
  }
  if (gathered_ && worker.presence == Presence::kPresent &&
      now - worker.moved_at > ProgressTimeout(worker)) {
    return Lose(rank,
                {"its compute thread has not moved for " + SecondsText(now - worker.moved_at)}, now,
                out);
  }
  if (silent > options_.timings.suspect_after && !worker.suspect) {
    worker.suspect = true;
    EmitLog(roster_.Name(rank) + " is suspect: silent for " + SecondsText(silent) + ", at round " +
                std::to_string(worker.applied + 1),
            out);
  }
}

bool Coordinator::HearsNobody(Time now) const {
  if (!gathered_ || options_.elasticity.on_loss == OnLoss::kFail || stop_code_ != Code::kOk)
    return false;
  return std::none_of(roster_.workers.begin(), roster_.workers.end(), [&](const Worker& worker) {
    return worker.live() && !worker.joining &&
           now - worker.heard_at <= options_.timings.suspect_after;
  });
}

void Coordinator::Excuse(Time now) {
  Time last{};
  for (const Worker& worker : roster_.workers) {
    if (worker.live()) last = std::max(last, worker.heard_at);
  }
  for (Worker& worker : roster_.workers) {
    if (worker.live() && worker.heard_at + options_.timings.suspect_after >= last)
      worker.excused_at = worker.moved_at = now;
  }
}

void Coordinator::Await(uint32_t rank, Time now, ControlActions* out) {
  Worker& worker = roster_.workers[rank];
  const Time silent = now - worker.heard_at;
  const std::string what = roster_.Name(rank) + " is silent for " + SecondsText(silent);
  if (silent > options_.timings.wait_timeout) {
    if (options_.elasticity.shrink())
      return Lose(rank, {"silent for " + SecondsText(silent)}, now, out);
    return Abort(Code::kPeerLost, what + ", as all are who hold the state of the job", now, out);
  }
  if (std::exchange(worker.awaited, true)) return;
  EmitLog(what +
              ", and nobody else who holds the state of the job is heard: the link of this "
              "server may be down; waiting for up to " +
              SecondsText(options_.timings.wait_timeout),
          out);
}

void Coordinator::CheckFollowers(Time now, ControlActions* out) {
  for (auto& [shard, follower] : roster_.shards) {
    const Time silent = now - follower.heard_at;
    const std::string name = "server shard " + std::to_string(shard);
    if (silent > (gathered_ || going_back_ ? options_.timings.server_return_timeout
                                           : options_.timings.start_timeout)) {
      return Abort(Code::kPeerLost, name + " was lost: silent for " + SecondsText(silent), now,
                   out);
    }
    if (silent > options_.timings.dead_after && !follower.silent && follower.peer != 0) {
      follower.silent = true;
      EmitLog(name + " is silent for " + SecondsText(silent) + "; waiting for it to come back",
              out);
    }
  }
}

void Coordinator::Lose(uint32_t rank, const Loss& loss, Time now, ControlActions* out) {
  Worker& worker = roster_.workers[rank];
  const std::string what = roster_.Name(rank) + " was lost at round " +
                           std::to_string(std::max(worker.applied, lane_.floor()) + 1) + ": " +
                           loss.why;
  const bool waits = options_.elasticity.on_loss == OnLoss::kWait;
  if (!gathered_ && !(going_back_ && !waits)) {
    EmitLog(what, out);  // its place is free again
    worker = Worker{};
    if (roster_.Live() == 0) roster_.steps = 0;
    return;
  }
  worker.presence = Presence::kLost;
  worker.lost_at = now;
  worker.may_return = waits && !loss.left && !worker.joining;
  worker.joining = worker.awaited = false;
  if (options_.elasticity.on_loss == OnLoss::kFail) return Abort(loss.code, what, now, out);
  if (!waits) return GoOnWithout(what, loss.code, now, out);
  if (stop_code_ != Code::kOk) return Abort(stop_code_, "stopped by a signal; " + what, now, out);
  if (!roster_.MayHoldStateBeside(nullptr)) return LoseState(what, loss.code, now, out);
  EmitLog(what + "; waiting for its return for up to " + SecondsText(options_.timings.wait_timeout),
          out);
}

void Coordinator::GoOnWithout(const std::string& what, Code code, Time now, ControlActions* out) {
  if (going_back_) return EmitLog(what, out);  // GatherIfComplete goes on without it
  if (stop_code_ != Code::kOk) code = stop_code_;
  const bool anyone = roster_.MayHoldStateBeside(nullptr);
  const bool too_few = roster_.Live() < options_.elasticity.min_workers;
  if (!anyone && !(too_few && CanGoBack())) return LoseState(what, code, now, out);
  if (too_few) {
    return Abort(code,
                 what + "; " + roster_.LiveText() + " are left, and faults.min_workers is " +
                     std::to_string(options_.elasticity.min_workers),
                 now, out);
  }
  EmitLog(what + "; going on with " + roster_.LiveText(), out);
  ++roster_.epoch;
  PublishMembers(out);
  EndIfAllDone(now, out);
}

void Coordinator::NameIfLate(uint32_t rank, ControlActions* out) {
  Worker& worker = roster_.workers[rank];
  const uint64_t late = worker.counters.late();
  if (late == 0 || (worker.late_told != 0 && late < worker.late_told + kLateAgain)) return;
  worker.late_told = late;
  EmitLog(roster_.Name(rank) + " was late in " + std::to_string(late) +
              " rounds so far: they closed without its gradient",
          out);
}

void Coordinator::OnStop(Code code, Time now, ControlActions* out) {
  const CheckedAfter checked(*this);
  if (farewell_.started() || stop_code_ != Code::kOk) return;
  stop_code_ = code;
  const bool missing =
      std::any_of(roster_.workers.begin(), roster_.workers.end(), [this](const Worker& worker) {
        return worker.live() ? worker.awaited : !options_.elasticity.shrink();
      });
  if (!gathered_ || missing) {
    return Abort(code, "stopped by a signal while not all workers were there", now, out);
  }
  EmitLog("stopping: the round in progress is the last", out);
  out->emplace_back().type = ControlAction::Type::kStop;
}

void Coordinator::EndIfAllDone(Time now, ControlActions* out) {
  bool anyone = false;
  for (const Worker& worker : roster_.workers) {
    if (gathered_ && options_.elasticity.shrink() && !worker.live()) continue;
    if (worker.presence != Presence::kDone) return;
    anyone = true;
  }
  if (!anyone) return;
  const Status status = EndOfJob();
  Message end;
  end.head.mutable_end()->set_code(static_cast<uint32_t>(ExitCode(status)));
  end.head.mutable_end()->set_sentence(status.message());
  // A peer whose connection broke without a word needs dead_after to notice.
  farewell_.Start(std::move(end), status, Guests(), options_.timings.hello_retry,
                  now + 2 * options_.timings.dead_after, now, out);
}

Status Coordinator::EndOfJob() const {
  if (stop_code_ != Code::kOk)
    return Status(stop_code_, "the job was stopped in order by a signal");
  uint64_t last = roster_.steps;
  for (const Worker& worker : roster_.workers) {
    if (worker.presence == Presence::kDone) last = std::min(last, worker.steps_done);
  }
  if (!options_.workers_hold_state || last == roster_.steps) return Ok();
  // A life of shard 0 before was asked for it.
  return Status(Code::kTerminated, "the job was stopped in order after step " +
                                       std::to_string(last) + " of " +
                                       std::to_string(roster_.steps));
}

void Coordinator::Abort(Code code, const std::string& sentence, Time now, ControlActions* out) {
  Message message;
  message.head.mutable_abort()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_abort()->set_sentence(sentence);
  std::vector<Farewell::Guest> guests = Guests();
  for (Farewell::Guest& guest : guests) {
    const bool worker = guest.role == pb::Hello::worker;
    guest.expected = guest.peer != 0 && (worker ? roster_.workers[guest.rank].live() &&
                                                      !roster_.workers[guest.rank].suspect
                                                : !roster_.shards[guest.rank].silent);
  }
  farewell_.Start(std::move(message), Status(code, sentence), std::move(guests),
                  options_.timings.hello_retry, now + 2 * options_.timings.heartbeat, now, out);
}

std::vector<Farewell::Guest> Coordinator::Guests() const {
  std::vector<Farewell::Guest> guests;
  for (uint32_t rank = 0; rank < roster_.workers.size(); ++rank) {
    const Worker& worker = roster_.workers[rank];
    guests.push_back({pb::Hello::worker, rank, worker.incarnation, worker.peer, worker.live()});
  }
  for (const auto& [shard, follower] : roster_.shards) {
    guests.push_back({pb::Hello::shard, shard, 0, follower.peer, true});
  }
  return guests;
}

}  // namespace tern::protocol
