// How Gathering decides where the job begins.
#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "common/protocol/members/shard0/gathering.h"

namespace tern::protocol {

pb::Hello Gathering::OwnHello() const {
  pb::Hello hello;
  hello.set_role(pb::Hello::shard);
  job_.options.find_saved_checkpoints().AddTo(&hello, job_.going_back());
  return hello;
}

void Gathering::OfferCheckpointsOfRun() {
  const uint64_t run = job_.roster.run;
  for (Roster::Worker& worker : job_.roster.workers) {
    protocol::OfferCheckpointsOfRun(run, &worker.hello);
    if (!job_.options.elasticity.shrinks_on_loss()) continue;
    auto* const checkpoints = worker.hello.mutable_checkpoints();
    checkpoints->erase(std::remove_if(checkpoints->begin(), checkpoints->end(),
                                      [run](const auto& own) { return own.run() != run; }),
                       checkpoints->end());
  }
  for (auto& [shard, follower] : job_.roster.shards)
    protocol::OfferCheckpointsOfRun(run, &follower.hello);
}

namespace {

std::string DescribeDaemon(const char* role, uint32_t rank, const std::string& host) {
  return Cat(role, rank, " (", Printable(host), ")");
}

}  // namespace

Offer Gathering::OfferOf(const pb::Hello& hello) const {
  const ControlOptions& options = job_.options;
  return {DescribeDaemon("worker ", hello.rank(), hello.host()), &hello, options.workers_hold_state,
          options.elasticity.shrinks_on_loss()};
}

std::vector<Offer> Gathering::CollectOffers(pb::Hello* own_hello) const {
  const ControlOptions& options = job_.options;
  std::vector<Offer> offers;
  for (const Roster::Worker& worker : job_.roster.workers) {
    if (worker.live()) offers.push_back(OfferOf(worker.hello));
  }
  if (options.ShardKeepsState(0)) {
    *own_hello = OwnHello();
    if (job_.going_back()) protocol::OfferCheckpointsOfRun(job_.roster.run, own_hello);
    offers.push_back(
        {DescribeDaemon("server shard ", 0, options.expected_hello.host()), own_hello});
  }
  for (const auto& [shard, follower] : job_.roster.shards) {
    if (options.ShardKeepsState(shard))
      offers.push_back(
          {DescribeDaemon("server shard ", shard, follower.hello.host()), &follower.hello});
  }
  return offers;
}

bool Gathering::MayBeginAnew(const std::vector<Offer>& offers, Time now, ControlActions* out) {
  if (const std::string why = WhyNotBeginAnew(offers, job_.options.elasticity.min_workers);
      !why.empty()) {
    // Waits until all shards have said hello, so that each is told why the job ends.
    if (job_.roster.AllShardsAreHere()) ending_.Abort(Code::kBadData, why, now, out);
    return false;
  }
  if (AnyHasCheckpoint(offers)) {
    EmitLog(
        "the run before ended before all had written their first checkpoint: the job begins at the "
        "start",
        out);
  }
  return true;
}

bool Gathering::MayGoBackToBeginning(const std::vector<Offer>& offers, Time now,
                                     ControlActions* out) {
  if (job_.options.begins_from_shards) {
    const std::string why = WhyNotGoBackToBeginning(offers, job_.roster.run, job_.options.window);
    if (!why.empty()) ending_.Abort(Code::kBadData, why, now, out);
    return why.empty();
  }
  const std::string why = WhyNotBeginAnew(offers);
  ending_.Abort(why.empty() ? Code::kPeerLost : Code::kBadData,
                "no live worker holds the state of the job, and " +
                    (why.empty() ? "there is no checkpoint that all have" : why),
                now, out);
  return false;
}

bool Gathering::WaitsForCheckpoints(bool has_begun, const std::vector<Offer>& offers, Time now,
                                    ControlActions* out) {
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  const ControlOptions& options = job_.options;
  if (!options.elasticity.shrinks_on_loss() || options.begins_from_shards ||
      !options.workers_hold_state || job_.roster.NumLive() == workers.size())
    return false;
  const Time waited = now - job_.gathering_since;
  if (!job_.begin.checkpoint.has_value()) {
    if (waited > options.timings.start_timeout || !(has_begun || AnyKnowsARun(offers)))
      return false;
    if (!has_begun && !std::exchange(has_logged_wait_, true)) {
      EmitLog(Cat(job_.roster.LiveText(),
                  " are here, and have no checkpoint from which the job can go on; it waits for "
                  "the others for up to ",
                  SecondsText(options.timings.start_timeout - waited)),
              out);
    }
    return true;
  }
  return waited <= options.timings.dead_after &&
         std::any_of(workers.begin(), workers.end(), [this](const Roster::Worker& worker) {
           return !worker.live() &&
                  worker.counters.checkpoint_step() > job_.begin.checkpoint->step();
         });
}

void Gathering::LogBegin(ControlActions* out) const {
  const BeginPoint& begin_point = job_.begin;
  const std::string repeated_text =
      job_.reached_round > begin_point.round()
          ? Cat(", from round ", job_.reached_round, ": what came after it is done again")
          : std::string();
  if (!begin_point.checkpoint.has_value())
    return EmitLog("all go back to the beginning" + repeated_text, out);
  EmitNormalLog(Cat("all go on from the ", begin_point.workers_load_checkpoint ? "" : "servers' ",
                    "checkpoint of step ", begin_point.checkpoint->step(), repeated_text),
                out);
  LogOtherSize(out);
  if (!begin_point.workers_load_checkpoint && job_.options.workers_hold_state &&
      job_.roster.AnyLiveKeepsOwn()) {
    EmitLog(Cat("the workers have no checkpoint in common with the servers: ", kWorkersOwnState,
                " begins anew"),
            out);
  }
  if (job_.options.workers_hold_state) return;
  // Without rounds, a worker can continue without its own checkpoint.
  for (uint32_t rank = 0; rank < job_.roster.workers.size(); ++rank) {
    const Roster::Worker& worker = job_.roster.workers[rank];
    const auto& checkpoints = worker.hello.checkpoints();
    const bool has_any = std::any_of(
        checkpoints.begin(), checkpoints.end(),
        [&](const pb::Checkpoint& own) { return own.run() == begin_point.checkpoint->run(); });
    if (!worker.live() || has_any) continue;
    EmitLog(job_.roster.Name(rank) +
                " has no checkpoint of this run on its disk: what it has of "
                "its own begins anew",
            out);
  }
}

void Gathering::LogOtherSize(ControlActions* out) const {
  const pb::Checkpoint& checkpoint = *job_.begin.checkpoint;
  const ControlOptions& options = job_.options;
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  const std::string size = OtherSizeText(checkpoint, options.workers, options.shards);
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    if (workers[rank].live() && LacksCheckpoint(workers[rank].hello))
      EmitLog(job_.roster.Name(rank) + " has no such checkpoint: it gets the state from the others",
              out);
  }
  if (size.empty()) return;
  const bool workers_drop = checkpoint.has_workers() && job_.roster.AnyLiveKeepsOwn();
  const std::vector<bool>& keeps_state = options.shard_keeps_state;
  const bool shards_drop =
      checkpoint.has_shards() &&
      std::find(keeps_state.begin(), keeps_state.end(), true) != keeps_state.end();
  std::vector<std::string> dropped;
  if (workers_drop) dropped.emplace_back(kWorkersOwnState);
  if (shards_drop) dropped.emplace_back(kServersCodecState);
  EmitLog(Cat("the job goes on with ", size,
              dropped.empty() ? "; nothing is dropped" : "; dropped: " + Join(dropped, ", and ")),
          out);
}

std::string Gathering::WhyNotRepair() const {
  if (!job_.begin.checkpoint.has_value())
    return "there is no checkpoint of a round at which they agreed that all have";
  if (job_.repaired_from.has_value() && KeyOf(*job_.repaired_from) == KeyOf(*job_.begin.checkpoint))
    return Cat("they differed before after all had gone on from the checkpoint of step ",
               job_.begin.checkpoint->step(), ": memory or a build of one of the hosts is faulty");
  return "";
}

bool Gathering::TryToChooseBegin(Time now, ControlActions* out) {
  const bool has_begun = HasBegun();
  if (has_begun && going_back_.CallWorkers(now, out)) return false;
  if (!ShardsHaveOffered(now, out)) return false;
  pb::Hello own_hello;
  const bool begins_from_shards = job_.options.begins_from_shards;
  if (has_begun) OfferCheckpointsOfRun();
  const std::vector<Offer> offers = CollectOffers(&own_hello);
  const bool replicas_differed = !job_.lane.agreement().status.ok();
  const std::optional<uint64_t> run_of_shards =
      has_begun && begins_from_shards ? std::optional(job_.roster.run) : std::nullopt;
  const BeginPoint begin_before = job_.begin;
  const size_t min_workers = has_begun ? 0 : job_.options.elasticity.min_workers;
  // Workers with private state go on as an undisturbed run only from a checkpoint of their own.
  const bool prefers_common = job_.options.can_resume && job_.roster.AnyLiveKeepsOwn();
  const auto choose_begin = [&](uint64_t max_round) {
    if (prefers_common) {
      BeginPoint common = ChooseBeginPoint(offers, std::nullopt, max_round, min_workers);
      if (common.checkpoint.has_value()) return common;
    }
    return ChooseBeginPoint(offers, run_of_shards, max_round, min_workers);
  };
  job_.begin = choose_begin(job_.NewestTrustedRound());
  // A later checkpoint, at which replicas that agree now may have differed, is better than none.
  if (!job_.begin.checkpoint.has_value() && !replicas_differed)
    job_.begin = choose_begin(kAnyRound);
  if (WaitsForCheckpoints(has_begun, offers, now, out)) {
    job_.begin = begin_before;
    return false;
  }
  if (const std::string difference =
          WhereWeightsDiffer(offers, job_.begin.checkpoint ? job_.begin.checkpoint->step() : 0);
      !difference.empty())
    EmitLog(difference + "; it is not used", out);
  if (replicas_differed) {
    if (const std::string why = WhyNotRepair(); !why.empty()) {
      ending_.Abort(job_.lane.agreement().status.code(),
                    Cat(job_.lane.agreement().status.message(), "; ", why), now, out);
      return false;
    }
    job_.repaired_from = job_.begin.checkpoint;
  }
  if (!job_.begin.checkpoint.has_value()) {
    if (!(has_begun ? MayGoBackToBeginning(offers, now, out) : MayBeginAnew(offers, now, out)))
      return false;
  } else {
    job_.roster.run = job_.begin.checkpoint->run();
  }
  if (has_begun || job_.begin.checkpoint.has_value()) LogBegin(out);
  // The lanes (the state machines behind the shards' sockets) must go back even if the job starts
  // from initial weights. The workers and shard 0 may have died in the middle of a run, while the
  // processes of the other shards did not.
  job_.lane.GoBack(job_.begin.round());
  job_.beginning = job_.beginning == 0 ? job_.options.incarnation : job_.beginning + 1;
  return true;
}

}  // namespace tern::protocol
