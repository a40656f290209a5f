// How shard 0 waits for the workers of a job that does not run (phases kGathering to kAsking), and
// decides where the job begins: from initial weights, from the state that some workers hold, or
// from a checkpoint (recovery.h).
//
// After a restart of shard 0 everything that it knew is rebuilt from the workers' hellos. Under
// `shrink` shard 0 then does not wait for ranks that the other workers report as removed, and after
// the start timeout it does not wait for any missing rank.
#pragma once

#include <string>
#include <vector>

#include "common/protocol/members/control.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/shard0/ending.h"
#include "common/protocol/members/shard0/going_back.h"
#include "common/protocol/members/shard0/job_state.h"
#include "common/protocol/members/shard0/membership.h"

namespace tern::protocol {

// A part of the Coordinator. It moves the job to kResuming, kAsking and kRunning, sets its `begin`
// and `beginning`, and admits the workers of the roster.
class Gathering {
 public:
  Gathering(JobState* job, Ending* ending, Membership* membership, GoingBack* going_back)
      : job_(*job), ending_(*ending), membership_(*membership), going_back_(*going_back) {}

  // Call after every hello: runs the job if no required worker is missing. REQUIRES a job that does
  // not run.
  void RunIfGathered(Time now, ControlActions* out);
  // Ends the job if workers are still missing after the start timeout.
  void OnTimer(Time now, ControlActions* out);

 private:
  // Whether no required worker is missing. HasGatheredAgain: the same for a job that is going back.
  bool HasGathered(Time now) const;
  bool HasGatheredAgain(Time now) const;
  // Under `shrink`, after a restart of shard 0: whether the other workers report every missing rank
  // as removed.
  bool OnlyRemovedAreMissing() const;
  // Ends the job if no worker holds its state; asks workers whose state is too old for another
  // hello. Returns true in both cases.
  bool MustNotRunYet(Time now, ControlActions* out);
  // Asks each worker that has applied fewer rounds than `floor` to say hello again. Returns whether
  // there is such a worker.
  bool AskWorkersBelow(uint64_t floor, ControlActions* out);
  // Whether the job must choose where it begins, because no worker brings its state.
  bool NeedsBegin() const;
  // Whether the job's `begin` is chosen. If not, does the next step towards it.
  bool MayBegin(Time now, ControlActions* out);
  // Whether the run was under way before the workers gathered. If so, the job goes back.
  bool HasBegun();
  // The checkpoint offers of all daemons that have said hello. *own is filled with this shard's
  // offer; it must outlive the result.
  std::vector<Offer> Offers(pb::Hello* own) const;
  // REQUIRES offers without a common checkpoint. Returns whether the job may start from initial
  // weights; if not, ends the job.
  bool MayBeginAnew(const std::vector<Offer>& offers, Time now, ControlActions* out);
  // Whether all shards that keep state have offered their checkpoints. If not, asks them.
  bool ShardsHaveOffered(Time now, ControlActions* out);
  void LogBegin(ControlActions* out) const;  // logs from which state the job continues
  void AdmitGathered(Time now);
  std::string WhoIsMissing() const;

  JobState& job_;
  Ending& ending_;
  Membership& membership_;
  GoingBack& going_back_;
  Time asked_at_{};  // when the shards were last asked
};

}  // namespace tern::protocol
