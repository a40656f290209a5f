// The coordinator's deadlines and the ways in which a job ends.
#include <algorithm>
#include <utility>

#include "common/protocol/coordinator.h"

namespace tern::protocol {

namespace {

using Presence = Coordinator::Worker::Presence;

constexpr uint64_t kLateAgain = 100;  // rounds between two words on one who is late

}  // namespace

void Coordinator::OnTimer(Time now, ControlActions* out) {
  if (farewell_.started()) return farewell_.OnTimer(now, out);
  if (now - pulse_at_ >= options_.timings.heartbeat) SendPulses(now, out);
  for (uint32_t rank = 0; rank < workers_.size() && !farewell_.started(); ++rank)
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
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    done |= workers_[rank].presence == Presence::kDone;
    if (!IsLive(workers_[rank]))
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
  pulse->set_epoch(gathered_ ? epoch_ : 0);
  pulse->set_floor(lane_.floor());
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (!IsLive(workers_[rank])) pulse->add_absent(rank);
  }
  for (const Worker& worker : workers_) {
    if (worker.peer != 0) EmitSend(worker.peer, message, out);
  }
  for (const auto& [shard, follower] : followers_) {
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
  Worker& worker = workers_[rank];
  if (worker.presence == Presence::kLost && options_.elasticity.on_loss == OnLoss::kWait &&
      now - worker.lost_at > options_.timings.wait_timeout) {
    return Abort(Code::kPeerLost,
                 Name(rank) + " was lost and nobody took its place within " +
                     SecondsText(options_.timings.wait_timeout),
                 now, out);
  }
  if (!IsLive(worker)) return;
  const Time silent = now - worker.heard_at;
  if (silent > options_.timings.dead_after)
    return Lose(rank, "silent for " + SecondsText(silent), now, out);
  if (gathered_ && worker.presence == Presence::kPresent &&
      now - worker.moved_at > ProgressTimeout(worker)) {
    return Lose(rank, "its compute thread has not moved for " + SecondsText(now - worker.moved_at),
                now, out);
  }
  if (silent > options_.timings.suspect_after && !worker.suspect) {
    worker.suspect = true;
    EmitLog(Name(rank) + " is suspect: silent for " + SecondsText(silent) + ", at round " +
                std::to_string(worker.applied + 1),
            out);
  }
}

void Coordinator::CheckFollowers(Time now, ControlActions* out) {
  for (auto& [shard, follower] : followers_) {
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

void Coordinator::Lose(uint32_t rank, const std::string& why, Time now, ControlActions* out) {
  Worker& worker = workers_[rank];
  const std::string what = Name(rank) + " was lost at round " +
                           std::to_string(std::max(worker.applied, lane_.floor()) + 1) + ": " + why;
  if (!gathered_ && !(going_back_ && options_.elasticity.on_loss != OnLoss::kWait)) {
    EmitLog(what, out);  // its place is free again
    worker = Worker{};
    return;
  }
  worker.presence = Presence::kLost;
  worker.lost_at = now;
  worker.joining = false;
  if (options_.elasticity.on_loss == OnLoss::kFail) return Abort(Code::kPeerLost, what, now, out);
  if (options_.elasticity.shrink()) return GoOnWithout(what, now, out);
  if (stop_code_ != Code::kOk) return Abort(stop_code_, "stopped by a signal; " + what, now, out);
  const bool anyone = std::any_of(workers_.begin(), workers_.end(), [](const Worker& other) {
    return !other.joining && IsLive(other);
  });
  if (!anyone) return LoseState(what, Code::kPeerLost, now, out);
  EmitLog(what + "; waiting for its return for up to " + SecondsText(options_.timings.wait_timeout),
          out);
}

void Coordinator::GoOnWithout(const std::string& what, Time now, ControlActions* out) {
  if (going_back_) return EmitLog(what, out);  // GatherIfComplete goes on without it
  const Code code = stop_code_ == Code::kOk ? Code::kPeerLost : stop_code_;
  const bool anyone = std::any_of(workers_.begin(), workers_.end(), [](const Worker& other) {
    return !other.joining && IsLive(other);
  });
  const bool too_few = Live() < options_.elasticity.min_workers;
  if (!anyone && !(too_few && CanGoBack())) return LoseState(what, code, now, out);
  if (too_few) {
    return Abort(code,
                 what + "; " + LiveText() + " are left, and faults.min_workers is " +
                     std::to_string(options_.elasticity.min_workers),
                 now, out);
  }
  EmitLog(what + "; going on with " + LiveText(), out);
  ++epoch_;
  PublishMembers(out);
  EndIfAllDone(now, out);
}

void Coordinator::NameIfLate(uint32_t rank, ControlActions* out) {
  Worker& worker = workers_[rank];
  const uint64_t late = worker.counters.late();
  if (late == 0 || (worker.late_told != 0 && late < worker.late_told + kLateAgain)) return;
  worker.late_told = late;
  EmitLog(Name(rank) + " was late in " + std::to_string(late) +
              " rounds so far: they closed without its gradient",
          out);
}

void Coordinator::OnStop(Code code, Time now, ControlActions* out) {
  if (farewell_.started() || stop_code_ != Code::kOk) return;
  stop_code_ = code;
  if (!gathered_ || (!options_.elasticity.shrink() && Live() != workers_.size())) {
    return Abort(code, "stopped by a signal while not all workers were there", now, out);
  }
  EmitLog("stopping: the round in progress is the last", out);
  out->emplace_back().type = ControlAction::Type::kStop;
}

void Coordinator::EndIfAllDone(Time now, ControlActions* out) {
  bool anyone = false;
  for (const Worker& worker : workers_) {
    if (gathered_ && options_.elasticity.shrink() && !IsLive(worker)) continue;
    if (worker.presence != Presence::kDone) return;
    anyone = true;
  }
  if (!anyone) return;
  Message end;
  const std::string sentence =
      stop_code_ == Code::kOk ? "" : "the job was stopped in order by a signal";
  end.head.mutable_end()->set_code(static_cast<uint32_t>(stop_code_));
  end.head.mutable_end()->set_sentence(sentence);
  // A peer whose connection broke without a word needs dead_after to notice.
  farewell_.Start(std::move(end), Status(stop_code_, sentence), Guests(),
                  options_.timings.hello_retry, now + 2 * options_.timings.dead_after, now, out);
}

void Coordinator::Abort(Code code, const std::string& sentence, Time now, ControlActions* out) {
  Message message;
  message.head.mutable_abort()->set_code(static_cast<uint32_t>(code));
  message.head.mutable_abort()->set_sentence(sentence);
  std::vector<Farewell::Guest> guests = Guests();
  for (Farewell::Guest& guest : guests) {
    const bool worker = guest.role == pb::Hello::worker;
    guest.expected =
        guest.peer != 0 && (worker ? IsLive(workers_[guest.rank]) && !workers_[guest.rank].suspect
                                   : !followers_[guest.rank].silent);
  }
  farewell_.Start(std::move(message), Status(code, sentence), std::move(guests),
                  options_.timings.hello_retry, now + 2 * options_.timings.heartbeat, now, out);
}

std::vector<Farewell::Guest> Coordinator::Guests() const {
  std::vector<Farewell::Guest> guests;
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const Worker& worker = workers_[rank];
    guests.push_back({pb::Hello::worker, rank, worker.incarnation, worker.peer, IsLive(worker)});
  }
  for (const auto& [shard, follower] : followers_) {
    guests.push_back({pb::Hello::shard, shard, 0, follower.peer, true});
  }
  return guests;
}

}  // namespace tern::protocol
