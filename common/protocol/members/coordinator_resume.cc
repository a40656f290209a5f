// The coordinator's part in going on from checkpoints: see resume.h.
#include <algorithm>

#include "common/base/text.h"
#include "common/protocol/members/coordinator.h"

namespace tern::protocol {

namespace {

std::string WhoOffers(const char* role, uint32_t rank, const std::string& host) {
  return Cat(role, rank, " (", Printable(host), ")");
}

}  // namespace

bool Coordinator::NobodyHoldsState() const {
  return std::none_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return IsLive(worker) && (!worker.hello.fresh() || worker.hello.done());
  });
}

std::vector<Offer> Coordinator::Offers(pb::Hello* own) const {
  std::vector<Offer> offers;
  for (const Worker& worker : workers_) {
    if (!IsLive(worker)) continue;
    offers.push_back({WhoOffers("worker ", worker.hello.rank(), worker.hello.host()), &worker.hello,
                      options_.workers_hold_state});
  }
  if (options_.Keeps(0)) {
    options_.saved().AddTo(own);
    offers.push_back({WhoOffers("server shard ", 0, options_.expected.host()), own});
  }
  for (const auto& [shard, follower] : followers_) {
    if (options_.Keeps(shard))
      offers.push_back({WhoOffers("server shard ", shard, follower.hello.host()), &follower.hello});
  }
  return offers;
}

std::optional<pb::Checkpoint> Coordinator::NewestCheckpoint() const {
  pb::Hello own;
  std::vector<const google::protobuf::RepeatedPtrField<pb::Checkpoint>*> counted;
  for (const Offer& offer : Offers(&own)) {
    if (offer.counts) counted.push_back(&offer.hello->checkpoints());
  }
  return NewestOfAll(counted);
}

bool Coordinator::MayBeginAnew(Time now, ControlActions* out) {
  if (!options_.resumes) return true;
  pb::Hello own;
  const std::vector<Offer> offers = Offers(&own);
  if (const std::string why = WhyNotAnew(offers); !why.empty()) {
    // Shards that keep nothing are told too, once they are here.
    const bool all_here = std::all_of(followers_.begin(), followers_.end(),
                                      [](const auto& one) { return one.second.peer != 0; });
    if (all_here) Abort(Code::kBadData, why, now, out);
    return false;
  }
  if (std::any_of(offers.begin(), offers.end(),
                  [](const Offer& offer) { return offer.hello->checkpoints_size() != 0; })) {
    EmitLog(
        "the run before ended before all had written their first checkpoint: the job begins at the "
        "start",
        out);
  }
  return true;
}

bool Coordinator::TakesAllBack(const pb::Hello& hello) const {
  if (!options_.resumes || HasSnapshots() || !options_.workers_hold_state) return false;
  if (options_.elasticity.on_loss != OnLoss::kWait) return false;
  if (!hello.fresh() || !hello.keeps_own()) return false;
  // Of its two newest all others have one (client/train/checkpoints.h).
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
  if (!resume_.has_value() && !MayBeginAnew(now, out)) return false;
  // Also where all begins anew: shards that have not died may be in the middle of a run whose
  // workers, and shard 0, have.
  begin_ = 0;
  if (resume_.has_value()) GoOnFrom(*resume_, out);
  lane_.GoBack(begin_);
  beginning_ = beginning_ == 0 ? options_.incarnation : beginning_ + 1;
  return true;
}

}  // namespace tern::protocol
