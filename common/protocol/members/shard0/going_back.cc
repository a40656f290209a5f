#include "common/protocol/members/shard0/going_back.h"

#include <algorithm>

#include "common/base/text.h"

namespace tern::protocol {

void GoingBack::GoBack(const std::string& why, Time now, ControlActions* out) {
  const bool needs_only_shards = job_.options.begins_from_shards && !job_.roster.AnyLiveKeepsOwn();
  EmitLog(Cat(why, "; all go back to the newest checkpoint that ",
              needs_only_shards ? "every server shard" : "everybody", " has"),
          out);
  job_.why_going_back = why;
  job_.Become(JobPhase::kCalling);
  job_.gathering_since = now;
  job_.roster.epoch = std::max(job_.roster.epoch, job_.roster.NewestEpoch());
  for (Roster::Worker& worker : job_.roster.workers) {
    job_.reached_round = std::max(job_.reached_round, worker.applied);
    if (worker.live()) {
      TellToGoBack(&worker, out);
    } else if (!job_.options.elasticity.shrinks_on_loss()) {
      worker.Retire();  // its rank is free for a new process
    }
  }
}

void GoingBack::TellToGoBack(Roster::Worker* worker, ControlActions* out) {
  EmitSend(worker->peer, MakeGoBack(worker->incarnation, job_.why_going_back), out);
  worker->Retire();
}

void GoingBack::OnStateLost(const std::string& what, Code code, Time now, ControlActions* out) {
  const std::string sentence =
      Cat(what, what.empty() ? "" : "; ", "no live worker holds the state of the job");
  if (job_.CanGoBack()) return GoBack(sentence, now, out);
  ending_.Abort(code, sentence, now, out);
}

void GoingBack::CheckReplicas(Time now, ControlActions* out) {
  const Status difference = job_.lane.agreement().status;
  if (!job_.running() || difference.ok()) return;
  if (job_.CanGoBack() && !job_.IsStopping()) return GoBack(difference.message(), now, out);
  ending_.Abort(difference.code(), difference.message(), now, out);
}

bool GoingBack::NeedsOwnCheckpoints(const pb::Hello& hello) const {
  const ControlOptions& options = job_.options;
  return options.can_resume && options.workers_hold_state &&
         options.elasticity.on_loss == OnLoss::kWait && hello.fresh() && hello.keeps_own();
}

bool GoingBack::RequiresAllToGoBack(const pb::Hello& hello, uint64_t run) const {
  // With two checkpoints of this run, the sender has one that all other workers have, too
  // (client/train/checkpoints.h).
  return NeedsOwnCheckpoints(hello) && NumCheckpointsOfRun(hello, run) >= 2;
}

bool GoingBack::BeginsOwnStateAnew(const pb::Hello& hello, uint64_t run) const {
  return NeedsOwnCheckpoints(hello) && NumCheckpointsOfRun(hello, run) < 2;
}

bool GoingBack::ShardRequiresAllToGoBack(const pb::Hello& hello, uint64_t run) const {
  const ControlOptions& options = job_.options;
  if (!options.can_resume || options.begins_from_shards || !options.workers_hold_state)
    return false;
  if (options.elasticity.has_unsolicited_outcomes() || hello.run() != 0) return false;
  // The other daemons may lack the newest one, but not the one from which all began.
  const bool has_begin = job_.begin.checkpoint.has_value() && job_.begin.checkpoint->run() == run;
  return NumCheckpointsOfRun(hello, run) >= (has_begin ? 1 : 2);
}

bool GoingBack::GoBackForShard(uint32_t shard, const pb::Hello& hello, Time now,
                               ControlActions* out) {
  const ControlOptions& options = job_.options;
  const std::vector<Roster::Worker>& workers = job_.roster.workers;
  const bool any_round_done = std::any_of(
      workers.begin(), workers.end(),
      [this](const Roster::Worker& worker) { return worker.applied > job_.begin.round(); });
  if (!options.ShardKeepsState(shard) || options.begins_from_shards ||
      !options.workers_hold_state || hello.run() != 0 || !any_round_done)
    return false;
  if (ShardRequiresAllToGoBack(hello, job_.roster.run)) {
    GoBack(WhyAllGoBackForShard(shard), now, out);
    return true;
  }
  EmitLog(Cat("server shard ", shard,
              " was started again: what its codecs lost of earlier sums begins anew"),
          out);
  return false;
}

std::string GoingBack::WhyAllGoBackForShard(uint32_t shard) const {
  return Cat("server shard ", shard,
             " was started again, and what its codecs lost of earlier sums is on its disk alone");
}

std::string GoingBack::WhyAllGoBackFor(uint32_t rank) const {
  return job_.roster.Name(rank) +
         " was started again, and what it had of its own is on its disk alone";
}

// A worker that was ever admitted may have sent contributions (pushes, scale factors, metrics).
// When it comes back as a new incarnation, no server accepts the old contributions.
bool GoingBack::CallWorkers(Time now, ControlActions* out) {
  bool has_told_any = false;
  job_.roster.epoch = std::max(job_.roster.epoch, job_.roster.NewestEpoch());
  for (Roster::Worker& worker : job_.roster.workers) {
    if (!worker.live() || worker.hello.epoch() == 0) continue;
    TellToGoBack(&worker, out);
    has_told_any = true;
  }
  if (!has_told_any) return false;
  if (!job_.has_called_workers()) job_.Become(JobPhase::kCalling);
  job_.gathering_since = now;
  return true;
}

}  // namespace tern::protocol
