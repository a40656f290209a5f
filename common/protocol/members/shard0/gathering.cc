#include "common/protocol/members/shard0/gathering.h"

#include <algorithm>

#include "common/base/text.h"

namespace tern::protocol {

using Presence = Roster::Worker::Presence;

void Gathering::RunIfGathered(Time now, ControlActions* out) {
  if (!HasGathered(now)) return;
  if (MustChooseBegin()) {
    if (!TryToChooseBegin(now, out)) return;
  } else if (!job_.options.begins_from_shards && MustNotRunYet(now, out)) {
    return;
  }
  AdmitGathered(now);
  membership_.Publish(out);
  membership_.WelcomeAll(out);
  const Roster& roster = job_.roster;
  if (roster.NumLive() == roster.workers.size()) {
    EmitNormalLog(Cat("all ", roster.workers.size(), " workers are here"), out);
  } else {
    EmitLog("going on with " + roster.LiveText(), out);
  }
  if (job_.options.ShardKeepsState(0) && going_back_.GoBackForShard(0, OwnHello(), now, out))
    return;
  ending_.EndIfAllDone(now, out);
}

void Gathering::OnTimer(Time now, ControlActions* out) {
  if (job_.options.elasticity.shrinks_on_loss() || job_.going_back()) RunIfGathered(now, out);
  if (job_.running() || job_.ending()) return;
  const Timings& timings = job_.options.timings;
  Time deadline = job_.gathering_since + timings.start_timeout;
  // If all workers have said hello, the shards may still have to offer their checkpoints.
  if (job_.going_back() && HasGatheredAgain(now)) deadline += timings.dead_after;
  if (now <= deadline) return;
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  const bool is_restart =
      job_.going_back() ||
      std::any_of(workers.begin(), workers.end(),
                  [](const Roster::Worker& worker) { return worker.presence == Presence::kDone; });
  ending_.Abort(Code::kPeerLost,
                Cat("the job did not start", is_restart ? " again" : "", " within ",
                    SecondsText(timings.start_timeout), ": ", WhoIsMissing()),
                now, out);
}

std::string Gathering::WhoIsMissing() const {
  const uint32_t begin_workers = job_.options.elasticity.begin_workers;
  if (begin_workers != 0 && job_.roster.NumLive() < begin_workers) {
    return Cat("hello from ", job_.roster.LiveText(), ", and it begins with ", begin_workers,
               " (workers.count)");
  }
  std::string silent_workers, refused_workers;
  for (uint32_t rank = 0; rank < job_.roster.workers.size(); ++rank) {
    const Roster::Worker& worker = job_.roster.workers[rank];
    if (worker.live()) continue;
    if (worker.why_refused.empty()) {
      silent_workers += Cat(silent_workers.empty() ? "no hello from worker " : ", ", rank);
    } else if (refused_workers.empty()) {
      refused_workers = Cat("worker ", rank, " was refused (", worker.why_refused, ")");
    } else {
      refused_workers += Cat(", and so was ", rank);
    }
  }
  if (silent_workers.empty() && refused_workers.empty())
    return "a server shard did not say what it can go back to";
  return refused_workers + (silent_workers.empty() || refused_workers.empty() ? "" : "; ") +
         silent_workers;
}

bool Gathering::HasGathered(Time now) const {
  if (job_.going_back()) return HasGatheredAgain(now);
  const Roster& roster = job_.roster;
  const Elasticity& elasticity = job_.options.elasticity;
  if (roster.NumLive() == roster.workers.size()) return true;
  const bool anyone_has_state = std::any_of(
      roster.workers.begin(), roster.workers.end(),
      [](const Roster::Worker& worker) { return worker.live() && !worker.hello.fresh(); });
  if (!elasticity.shrinks_on_loss() || roster.NumLive() < elasticity.min_workers) return false;
  const bool enough_begin =
      elasticity.begin_workers != 0 && roster.NumLive() >= elasticity.begin_workers;
  if (!anyone_has_state && enough_begin) return true;
  if (!anyone_has_state && !elasticity.begins_with_min) return false;
  return now - job_.gathering_since > job_.options.timings.start_timeout ||
         (anyone_has_state && OnlyRemovedAreMissing());
}

bool Gathering::OnlyRemovedAreMissing() const {
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    if (workers[rank].live()) continue;
    for (const Roster::Worker& worker : workers) {
      if (!worker.live() || worker.hello.fresh()) continue;
      const auto& removed_ranks = worker.hello.gone();
      if (std::find(removed_ranks.begin(), removed_ranks.end(), rank) == removed_ranks.end())
        return false;
    }
  }
  return true;
}

bool Gathering::HasGatheredAgain(Time now) const {
  const Roster& roster = job_.roster;
  if (roster.NumLive() == roster.workers.size()) return true;
  const Elasticity& elasticity = job_.options.elasticity;
  if (!elasticity.shrinks_on_loss() || roster.NumLive() < elasticity.min_workers) return false;
  const bool all_ranks_known = std::none_of(
      roster.workers.begin(), roster.workers.end(),
      [](const Roster::Worker& worker) { return worker.presence == Presence::kAbsent; });
  const Timings& timings = job_.options.timings;
  return all_ranks_known ||
         now - job_.gathering_since >
             (job_.has_called_workers() ? timings.dead_after : timings.start_timeout);
}

bool Gathering::MustNotRunYet(Time now, ControlActions* out) {
  bool anyone_has_state = false, has_begun = false;
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (!worker.live()) continue;
    has_begun |= worker.hello.epoch() != 0;
    anyone_has_state |= !worker.hello.fresh();
  }
  if (has_begun && !anyone_has_state && job_.options.workers_hold_state) {
    ending_.Abort(Code::kPeerLost, "no live worker holds the state of the job", now, out);
    return true;
  }
  return AskWorkersBelowFloor(out) && !HasGathered(now);
}

// A worker below the floor (all members have applied a round that it has not) cannot continue:
// another process took its rank, and the rounds' sums that the worker needs were then dropped. But
// the worker may have advanced since its hello, so it is asked for a new hello.
bool Gathering::AskWorkersBelowFloor(ControlActions* out) {
  // A worker is told only of floors of its own run, whose number no stranger knows.
  std::map<uint64_t, uint64_t> floor_of_run;
  for (const Roster::Worker& worker : job_.roster.workers) {
    uint64_t& floor = floor_of_run[worker.hello.run()];
    if (worker.live()) floor = std::max(floor, worker.hello.floor());
  }
  bool any_asked = false;
  for (Roster::Worker& worker : job_.roster.workers) {
    const uint64_t floor = floor_of_run[worker.hello.run()];
    if (!worker.live() || worker.hello.fresh() || worker.hello.applied() >= floor) continue;
    Message retry_request = MakeRefusal(Code::kNotAllowed, "say hello again", pb::Refuse::retry);
    retry_request.head.mutable_refuse()->set_floor(floor);
    EmitSend(worker.peer, std::move(retry_request), out);
    worker.Forget();
    any_asked = true;
  }
  return any_asked;
}

std::string Gathering::WhyHoldersGoBack() const {
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  const auto holder =
      std::find_if(workers.begin(), workers.end(), [](const Roster::Worker& worker) {
        return worker.live() && !worker.hello.fresh() && worker.hello.run() != 0;
      });
  if (holder == workers.end()) return "";
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    if (workers[rank].live() &&
        going_back_.RequiresAllToGoBack(workers[rank].hello, holder->hello.run()))
      return going_back_.WhyAllGoBackFor(rank);
  }
  for (uint32_t shard = 0; shard < job_.options.shards; ++shard) {
    if (!job_.options.ShardKeepsState(shard)) continue;
    const pb::Hello hello = shard == 0 ? OwnHello() : job_.roster.shards.at(shard).hello;
    if (going_back_.ShardRequiresAllToGoBack(hello, holder->hello.run()))
      return going_back_.WhyAllGoBackForShard(shard);
  }
  return "";
}

bool Gathering::MustChooseBegin() const {
  const Roster& roster = job_.roster;
  if (job_.options.begins_from_shards) {  // If all workers are done, the job need not begin.
    return job_.going_back() || std::any_of(roster.workers.begin(), roster.workers.end(),
                                            [](const Roster::Worker& worker) {
                                              return worker.live() && !worker.hello.done();
                                            });
  }
  if (!job_.lane.agreement().status.ok()) return true;
  if (!roster.NobodyHoldsState()) return !WhyHoldersGoBack().empty();
  pb::Hello own_hello;
  return job_.options.can_resume || AnyHasCheckpoint(CollectOffers(&own_hello));
}

bool Gathering::HasBegun() {
  bool has_begun = job_.going_back();
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (!worker.live()) continue;
    has_begun |= worker.hello.epoch() != 0 || worker.hello.run() != 0;
    if (worker.hello.run() != 0) job_.roster.run = worker.hello.run();
    if (!worker.hello.fresh())
      job_.reached_round = std::max(job_.reached_round, worker.hello.applied());
  }
  if (!has_begun || job_.going_back()) return has_begun;
  job_.why_going_back = job_.roster.NobodyHoldsState() ? "no live worker holds the state of the job"
                        : job_.options.begins_from_shards ? "server shard 0 was started again"
                                                          : WhyHoldersGoBack();
  job_.Become(JobPhase::kResuming);
  for (Roster::Worker& worker : job_.roster.workers) {
    // A worker can be missing here only if faults.on_worker_loss is `shrink`. The job then
    // continues without it.
    if (!worker.live()) worker.presence = Presence::kLost;
  }
  return true;
}

bool Gathering::ShardsHaveOffered(Time now, ControlActions* out) {
  std::map<uint32_t, Roster::Shard>& shards = job_.roster.shards;
  const Time retry_interval = job_.options.timings.hello_retry;
  if (job_.going_back() && !job_.asking()) {  // The checkpoints in the shards' hellos may be old.
    job_.Become(JobPhase::kAsking);
    asked_at_ = now - retry_interval;
    for (auto& [shard, follower] : shards) {
      if (job_.options.ShardKeepsState(shard)) follower.incarnation = 0;
    }
  }
  bool all_offered = true;
  const bool is_due = now - asked_at_ >= retry_interval;
  for (const auto& [shard, follower] : shards) {
    if (!job_.options.ShardKeepsState(shard) || follower.incarnation != 0) continue;
    all_offered = false;
    if (!is_due || follower.peer == 0) continue;
    Message message;
    message.head.mutable_go_back();
    EmitSend(follower.peer, std::move(message), out);
  }
  if (is_due) asked_at_ = now;
  return all_offered;
}

bool Gathering::LacksCheckpoint(const pb::Hello& hello) const {
  const BeginPoint& begin = job_.begin;
  if (!begin.checkpoint.has_value() || !begin.workers_load_checkpoint) return false;
  const Offer offer = OfferOf(hello);
  return offer.is_required && offer.Find(*begin.checkpoint) == nullptr;
}

void Gathering::AdmitGathered(Time now) {
  Roster& roster = job_.roster;
  roster.epoch = std::max(roster.epoch, roster.NewestEpoch());
  bool anyone_has_state = false;
  const Roster::Worker* first_giver = nullptr;  // its state is the first that all have
  for (const Roster::Worker& worker : roster.workers) {
    if (worker.live() && worker.hello.first_state() && first_giver == nullptr)
      first_giver = &worker;
    if (!worker.live() || worker.hello.fresh()) continue;
    anyone_has_state = true;
    if (worker.hello.run() != 0) roster.run = worker.hello.run();
  }
  const bool goes_back = job_.going_back() || job_.begin.checkpoint.has_value();
  if (!anyone_has_state && !goes_back) roster.run = job_.options.incarnation;  // random
  job_.Become(JobPhase::kRunning);
  ++roster.epoch;
  for (Roster::Worker& worker : roster.workers) {
    if (!worker.live()) continue;
    worker.epoch = roster.epoch;
    worker.advanced_at = now;
    worker.lacks_checkpoint = LacksCheckpoint(worker.hello);
    worker.joins_from_begin =
        goes_back && (!worker.lacks_checkpoint || job_.options.begins_from_shards);
    const bool is_first = first_giver == nullptr || first_giver == &worker;
    const bool lacks_state = worker.hello.fresh() && (anyone_has_state || !is_first);
    worker.joining = goes_back || (job_.options.workers_hold_state && lacks_state);
    if (worker.joining || worker.first_epoch == 0) worker.first_epoch = roster.epoch;
    worker.first_epoch = std::min(worker.first_epoch, roster.epoch);
  }
}

}  // namespace tern::protocol
