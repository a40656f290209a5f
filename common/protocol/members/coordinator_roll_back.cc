// The coordinator's part in going back to a round that all shards have: see roll_back.h.
#include <algorithm>
#include <utility>

#include "common/protocol/members/coordinator.h"

namespace tern::protocol {

namespace {

using Presence = Coordinator::Worker::Presence;

}  // namespace

void Coordinator::GoBack(const std::string& why, Time now, ControlActions* out) {
  EmitLog(
      why + (HasSnapshots() ? "; all go back to the newest round that every server shard still has"
                            : "; all go back to the newest checkpoint that everybody has"),
      out);
  gathered_ = false;
  going_back_ = called_ = true;
  started_at_ = now;
  poll_.Clear();
  asked_at_ = now - options_.timings.hello_retry;
  if (!HasSnapshots()) {
    for (auto& [shard, follower] : followers_)
      follower.incarnation = 0;  // to offer what it has now
  }
  for (Worker& worker : workers_) {
    reached_ = std::max(reached_, worker.applied);
    if (IsLive(worker)) {
      TellToGoBack(&worker, out);
    } else if (!options_.elasticity.shrink()) {
      Retire(&worker);  // its place is free
    }
  }
}

void Coordinator::TellToGoBack(Worker* worker, ControlActions* out) {
  Message message;
  message.head.mutable_go_back()->set_incarnation(worker->incarnation);
  EmitSend(worker->peer, std::move(message), out);
  epoch_ = std::max(epoch_, worker->epoch);
  Retire(worker);
}

void Coordinator::LoseState(const std::string& what, Code code, Time now, ControlActions* out) {
  const std::string sentence =
      (what.empty() ? "" : what + "; ") + "no live worker holds the state of the job";
  if (CanGoBack()) return GoBack(sentence, now, out);
  Abort(code, sentence, now, out);
}

bool Coordinator::MayHoldStateBeside(const Worker* except) const {
  return std::any_of(workers_.begin(), workers_.end(), [except](const Worker& worker) {
    const bool here = IsLive(worker) && !worker.joining;
    return &worker != except && (here || worker.may_return);
  });
}

bool Coordinator::HasGatheredAgain(Time now) const {
  if (Live() == workers_.size()) return true;
  if (!options_.elasticity.shrink() || Live() < options_.elasticity.min_workers) return false;
  const bool all_heard_of =
      std::none_of(workers_.begin(), workers_.end(),
                   [](const Worker& worker) { return worker.presence == Presence::kAbsent; });
  // Who is told to come anew does so at once.
  return all_heard_of || now - started_at_ > (called_ ? options_.timings.dead_after
                                                      : options_.timings.start_timeout);
}

bool Coordinator::MayBegin(Time now, ControlActions* out) {
  bool begun = going_back_, all_done = !going_back_;
  for (const Worker& worker : workers_) {
    if (!IsLive(worker)) continue;
    begun |= worker.hello.run() != 0;
    all_done &= worker.hello.done();
    if (worker.hello.run() != 0) run_ = worker.hello.run();
    if (!worker.hello.fresh()) reached_ = std::max(reached_, worker.hello.applied());
  }
  if (all_done) return true;  // nobody needs the parameters any more
  if (begun && !going_back_) {
    going_back_ = true;
    asked_at_ = now - options_.timings.hello_retry;
    for (Worker& worker : workers_) {
      if (!IsLive(worker)) worker.presence = Presence::kLost;  // `shrink`: it goes on without
    }
  }
  if (begun && CallAnew(now, out)) return false;
  if (!ShardsHaveOffered()) return false;
  begin_ = 0;
  resume_ = options_.resumes ? NewestCheckpoint() : std::nullopt;
  if (begun) {
    AskForSnapshots(now, out);
    const std::optional<uint64_t> newest = poll_.NewestOfAll();
    if (!newest.has_value()) return false;
    begin_ = *newest;
    if (resume_.has_value() && resume_->round() < begin_) resume_.reset();
  } else if (!resume_.has_value() && !MayBeginAnew(now, out)) {
    return false;
  }
  if (resume_.has_value()) {
    GoOnFrom(*resume_, out);
  } else if (begun) {
    EmitLog("all go back to round " + std::to_string(begin_) + ", from round " +
                std::to_string(std::max(reached_, begin_)) + ": what came after is done again",
            out);
  }
  if (begun || resume_.has_value()) lane_.GoBack(begin_);
  beginning_ = beginning_ == 0 ? options_.incarnation : beginning_ + 1;
  return true;
}

// Whoever was ever admitted may have spoken to a lane: only a new incarnation is sure not to have.
bool Coordinator::CallAnew(Time now, ControlActions* out) {
  bool told = false;
  for (Worker& worker : workers_) {
    if (!IsLive(worker) || worker.hello.epoch() == 0) continue;
    TellToGoBack(&worker, out);
    told = true;
  }
  if (!told) return false;
  called_ = true;
  started_at_ = now;
  return true;
}

void Coordinator::AskForSnapshots(Time now, ControlActions* out) {
  if (now - asked_at_ < options_.timings.hello_retry) return;
  asked_at_ = now;
  if (!poll_.Has(0)) poll_.Put(0, options_.snapshots(run_));
  for (const auto& [shard, follower] : followers_) {
    if (poll_.Has(shard) || follower.peer == 0) continue;
    Message message;
    message.head.mutable_go_back()->set_run(run_);
    EmitSend(follower.peer, std::move(message), out);
  }
}

void Coordinator::OnSnapshots(Peer from, const pb::GoBack& answer, Time now, ControlActions* out) {
  for (const auto& [shard, follower] : followers_) {
    if (follower.peer != from || !going_back_ || answer.run() != run_) continue;
    poll_.Put(shard, {answer.snapshots().begin(), answer.snapshots().end()});
    return GatherIfComplete(now, out);
  }
}

}  // namespace tern::protocol
