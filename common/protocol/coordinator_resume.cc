// The coordinator's part in going on from checkpoints: see resume.h.
#include <algorithm>

#include "common/protocol/coordinator.h"

namespace tern::protocol {

bool Coordinator::NobodyHoldsState() const {
  return std::none_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return IsLive(worker) && (!worker.hello.fresh() || worker.hello.done());
  });
}

std::optional<pb::Checkpoint> Coordinator::NewestCheckpoint() const {
  using Offer = google::protobuf::RepeatedPtrField<pb::Checkpoint>;
  std::vector<const Offer*> offers;
  for (const Worker& worker : workers_) {
    if (options_.workers_hold_state && IsLive(worker))
      offers.push_back(&worker.hello.checkpoints());
  }
  Offer own;
  if (options_.Keeps(0)) {
    for (const pb::Checkpoint& one : options_.checkpoints()) *own.Add() = one;
    offers.push_back(&own);
  }
  for (const auto& [shard, follower] : followers_) {
    if (options_.Keeps(shard)) offers.push_back(&follower.checkpoints);
  }
  return NewestOfAll(offers);
}

bool Coordinator::TakesAllBack(const pb::Hello& hello) const {
  if (!options_.resumes || HasSnapshots() || !options_.workers_hold_state) return false;
  if (options_.elasticity.on_loss != OnLoss::kWait) return false;
  if (!hello.fresh() || !hello.keeps_own()) return false;
  // Of its two newest all others have one (worker/train/checkpoints.h).
  const auto& offers = hello.checkpoints();
  return std::count_if(offers.begin(), offers.end(),
                       [this](const auto& one) { return one.run() == run_; }) >= 2;
}

void Coordinator::AskForCheckpoints(Time now, ControlActions* out) {
  if (now - asked_at_ < options_.timings.hello_retry) return;
  asked_at_ = now;
  for (const auto& [shard, follower] : followers_) {
    if (!options_.Keeps(shard) || follower.incarnation != 0 || follower.peer == 0) continue;
    Message message;
    message.head.mutable_go_back()->set_run(run_);
    EmitSend(follower.peer, std::move(message), out);
  }
}

// They say hello again where the job goes back.
bool Coordinator::ShardsHaveOffered() const {
  return std::none_of(followers_.begin(), followers_.end(), [this](const auto& one) {
    return options_.Keeps(one.first) && one.second.incarnation == 0;
  });
}

void Coordinator::GoOnFrom(const pb::Checkpoint& checkpoint, ControlActions* out) {
  run_ = checkpoint.run();
  begin_ = checkpoint.round();
  EmitLog("all go on from the checkpoint of step " + std::to_string(checkpoint.step()) +
              (reached_ > begin_ ? ", from round " + std::to_string(reached_) +
                                       ": what came after it is done again"
                                 : std::string()),
          out);
}

bool Coordinator::MayResume(Time now, ControlActions* out) {
  const bool begun =
      going_back_ || std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
        return IsLive(worker) && (worker.hello.epoch() != 0 || worker.hello.run() != 0);
      });
  if (begun) {
    going_back_ = true;
    if (CallAnew(now, out)) return false;
  }
  if (!ShardsHaveOffered()) {
    AskForCheckpoints(now, out);
    return false;
  }
  resume_ = NewestCheckpoint();
  if (!resume_.has_value() && begun) {
    Abort(Code::kPeerLost,
          "no live worker holds the state of the job, and there is no checkpoint that all have",
          now, out);
    return false;
  }
  // Also where all begins anew: shards that have not died may be in the middle of a run whose
  // workers, and shard 0, have.
  begin_ = 0;
  if (resume_.has_value()) GoOnFrom(*resume_, out);
  lane_.GoBack(begin_);
  beginning_ = beginning_ == 0 ? options_.incarnation : beginning_ + 1;
  return true;
}

}  // namespace tern::protocol
