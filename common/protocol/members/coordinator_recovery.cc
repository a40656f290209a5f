// The coordinator's part in going on from checkpoints: see recovery.h.
#include <algorithm>

#include "common/base/text.h"
#include "common/protocol/members/coordinator.h"

namespace tern::protocol {

namespace {

using Presence = Coordinator::Worker::Presence;

std::string WhoOffers(const char* role, uint32_t rank, const std::string& host) {
  return Cat(role, rank, " (", Printable(host), ")");
}

}  // namespace

void Coordinator::GoBack(const std::string& why, Time now, ControlActions* out) {
  EmitLog(Cat(why, "; all go back to the newest checkpoint that ",
              options_.begins_from_shards ? "every server shard" : "everybody", " has"),
          out);
  gathered_ = false;
  going_back_ = called_ = true;
  started_at_ = now;
  asking_ = false;
  for (Worker& worker : roster_.workers) {
    reached_ = std::max(reached_, worker.applied);
    if (worker.live()) {
      TellToGoBack(&worker, out);
    } else if (!options_.elasticity.shrink()) {
      worker.Retire();  // its place is free
    }
  }
}

void Coordinator::TellToGoBack(Worker* worker, ControlActions* out) {
  Message message;
  message.head.mutable_go_back()->set_incarnation(worker->incarnation);
  EmitSend(worker->peer, std::move(message), out);
  roster_.epoch = std::max(roster_.epoch, worker->epoch);
  worker->Retire();
}

void Coordinator::LoseState(const std::string& what, Code code, Time now, ControlActions* out) {
  const std::string sentence =
      (what.empty() ? "" : what + "; ") + "no live worker holds the state of the job";
  if (CanGoBack()) return GoBack(sentence, now, out);
  Abort(code, sentence, now, out);
}

bool Coordinator::TakesAllBack(const pb::Hello& hello) const {
  if (!options_.resumes || options_.begins_from_shards || !options_.workers_hold_state)
    return false;
  if (options_.elasticity.on_loss != OnLoss::kWait) return false;
  if (!hello.fresh() || !hello.keeps_own()) return false;
  // Of its two newest all others have one (client/train/checkpoints.h).
  const auto& offers = hello.checkpoints();
  return std::count_if(offers.begin(), offers.end(),
                       [this](const auto& one) { return one.run() == roster_.run; }) >= 2;
}

bool Coordinator::HasGatheredAgain(Time now) const {
  if (roster_.Live() == roster_.workers.size()) return true;
  if (!options_.elasticity.shrink() || roster_.Live() < options_.elasticity.min_workers)
    return false;
  const bool all_heard_of =
      std::none_of(roster_.workers.begin(), roster_.workers.end(),
                   [](const Worker& worker) { return worker.presence == Presence::kAbsent; });
  // Who is told to come anew does so at once.
  return all_heard_of || now - started_at_ > (called_ ? options_.timings.dead_after
                                                      : options_.timings.start_timeout);
}

bool Coordinator::NeedsBegin() const {
  if (options_.begins_from_shards) {  // unless nobody needs the parameters any more
    return going_back_ ||
           std::any_of(roster_.workers.begin(), roster_.workers.end(),
                       [](const Worker& worker) { return worker.live() && !worker.hello.done(); });
  }
  if (!roster_.NobodyHoldsState()) return false;
  pb::Hello own;
  return options_.resumes || HasAny(Offers(&own));
}

bool Coordinator::HasBegun() {
  bool begun = going_back_;
  for (const Worker& worker : roster_.workers) {
    if (!worker.live()) continue;
    begun |= worker.hello.epoch() != 0 || worker.hello.run() != 0;
    if (worker.hello.run() != 0) roster_.run = worker.hello.run();
    if (!worker.hello.fresh()) reached_ = std::max(reached_, worker.hello.applied());
  }
  if (!begun || going_back_) return begun;
  going_back_ = true;
  for (Worker& worker : roster_.workers) {
    if (!worker.live()) worker.presence = Presence::kLost;  // `shrink`: it goes on without
  }
  return true;
}

// Whoever was ever admitted may have spoken to a lane: only a new incarnation is sure not to have.
bool Coordinator::CallAnew(Time now, ControlActions* out) {
  bool told = false;
  for (Worker& worker : roster_.workers) {
    if (!worker.live() || worker.hello.epoch() == 0) continue;
    TellToGoBack(&worker, out);
    told = true;
  }
  if (!told) return false;
  called_ = true;
  started_at_ = now;
  return true;
}

bool Coordinator::ShardsHaveOffered(Time now, ControlActions* out) {
  if (going_back_ && !asking_) {  // what they have by now, not what they had when they came
    asking_ = true;
    asked_at_ = now - options_.timings.hello_retry;
    for (auto& [shard, follower] : roster_.shards) {
      if (options_.Keeps(shard)) follower.incarnation = 0;
    }
  }
  bool all = true;
  const bool asks = now - asked_at_ >= options_.timings.hello_retry;
  for (const auto& [shard, follower] : roster_.shards) {
    if (!options_.Keeps(shard) || follower.incarnation != 0) continue;
    all = false;
    if (!asks || follower.peer == 0) continue;
    Message message;
    message.head.mutable_go_back();
    EmitSend(follower.peer, std::move(message), out);
  }
  if (asks) asked_at_ = now;
  return all;
}

std::vector<Offer> Coordinator::Offers(pb::Hello* own) const {
  std::vector<Offer> offers;
  for (const Worker& worker : roster_.workers) {
    if (!worker.live()) continue;
    offers.push_back({WhoOffers("worker ", worker.hello.rank(), worker.hello.host()), &worker.hello,
                      options_.workers_hold_state});
  }
  if (options_.Keeps(0)) {
    own->set_role(pb::Hello::shard);
    options_.saved().AddTo(own);
    offers.push_back({WhoOffers("server shard ", 0, options_.expected.host()), own});
  }
  for (const auto& [shard, follower] : roster_.shards) {
    if (options_.Keeps(shard))
      offers.push_back({WhoOffers("server shard ", shard, follower.hello.host()), &follower.hello});
  }
  return offers;
}

bool Coordinator::MayBeginAnew(const std::vector<Offer>& offers, Time now, ControlActions* out) {
  if (const std::string why = WhyNotAnew(offers); !why.empty()) {
    // Shards that keep nothing are told too, once they are here.
    const bool all_here = std::all_of(roster_.shards.begin(), roster_.shards.end(),
                                      [](const auto& one) { return one.second.peer != 0; });
    if (all_here) Abort(Code::kBadData, why, now, out);
    return false;
  }
  if (HasAny(offers)) {
    EmitLog(
        "the run before ended before all had written their first checkpoint: the job begins at the "
        "start",
        out);
  }
  return true;
}

void Coordinator::SayWhereFrom(ControlActions* out) const {
  const std::string again = reached_ > begin_.round() ? Cat(", from round ", reached_,
                                                            ": what came after it is done again")
                                                      : std::string();
  if (!begin_.from.has_value()) return EmitLog("all go back to the beginning" + again, out);
  EmitLog(Cat("all go on from the ", begin_.workers_load ? "" : "servers' ", "checkpoint of step ",
              begin_.from->step(), again),
          out);
}

bool Coordinator::MayBegin(Time now, ControlActions* out) {
  const bool begun = HasBegun();
  if (begun && CallAnew(now, out)) return false;
  if (!ShardsHaveOffered(now, out)) return false;
  pb::Hello own;
  const std::vector<Offer> offers = Offers(&own);
  begin_ = Choose(offers,
                  begun && options_.begins_from_shards ? std::optional(roster_.run) : std::nullopt);
  if (!begin_.from.has_value()) {
    if (!begun && !MayBeginAnew(offers, now, out)) return false;
    if (begun && !options_.begins_from_shards) {
      Abort(Code::kPeerLost,
            "no live worker holds the state of the job, and there is no checkpoint that all have",
            now, out);
      return false;
    }
  } else {
    roster_.run = begin_.from->run();
  }
  if (begun || begin_.from.has_value()) SayWhereFrom(out);
  // Also where all begins anew: shards that have not died may be in the middle of a run whose
  // workers, and shard 0, have.
  lane_.GoBack(begin_.round());
  beginning_ = beginning_ == 0 ? options_.incarnation : beginning_ + 1;
  return true;
}

}  // namespace tern::protocol
