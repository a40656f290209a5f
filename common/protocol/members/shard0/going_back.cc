#include "common/protocol/members/shard0/going_back.h"

#include <algorithm>

#include "common/base/text.h"

namespace tern::protocol {

void GoingBack::GoBack(const std::string& why, Time now, ControlActions* out) {
  EmitLog(Cat(why, "; all go back to the newest checkpoint that ",
              job_.options.begins_from_shards ? "every server shard" : "everybody", " has"),
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

bool GoingBack::RequiresAllToGoBack(const pb::Hello& hello, uint64_t run) const {
  const ControlOptions& options = job_.options;
  if (!options.can_resume || options.begins_from_shards || !options.workers_hold_state)
    return false;
  if (options.elasticity.on_loss != OnLoss::kWait) return false;
  if (!hello.fresh() || !hello.keeps_own()) return false;
  // With two checkpoints of this run, the sender has one that all other workers have, too
  // (client/train/checkpoints.h).
  const auto& checkpoints = hello.checkpoints();
  return std::count_if(
             checkpoints.begin(), checkpoints.end(),
             [run](const pb::Checkpoint& checkpoint) { return checkpoint.run() == run; }) >= 2;
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
