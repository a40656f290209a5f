// How shard 0 gathers the workers of a job that does not run (phases kGathering to kAsking), and
// finds where they begin: anew, from the state that some hold, or from a checkpoint (recovery.h).
//
// After a restart of shard 0 the gathering rebuilds everything from the hellos. Under `shrink` it
// does not wait for ranks that the others report as removed, nor for any rank beyond the start
// timeout.
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

// Sets the job's phase to kResuming, kAsking and kRunning, its `begin` and `beginning`, and admits
// the workers of the roster.
class Gathering {
 public:
  Gathering(JobState* job, Ending* ending, Membership* membership, GoingBack* going_back)
      : job_(*job), ending_(*ending), membership_(*membership), going_back_(*going_back) {}

  // Runs the job if all are here who are waited for. REQUIRES a job that does not run. Call it
  // after every hello.
  void GatherIfComplete(Time now, ControlActions* out);
  // Ends a job that has not gathered in time.
  void OnTimer(Time now, ControlActions* out);

 private:
  // Whether all workers are here who are waited for.
  bool HasGathered(Time now) const;
  bool HasGatheredAgain(Time now) const;
  // `shrink`, after a restart of shard 0: whether all are here but ranks that the others removed.
  bool OnlyRemovedAreMissing() const;
  // Whether the state of the job is lost, which ends it, or a worker has to say hello once more.
  bool CannotGather(Time now, ControlActions* out);
  // Asks each worker to say hello again whose state is older than what the others still keep.
  bool AskAgainBelow(uint64_t floor, ControlActions* out);
  // Whether those who gathered have to agree on where they begin.
  bool NeedsBegin() const;
  // Whether they may begin, and the job's `begin` says where; takes the next step towards it if
  // not.
  bool MayBegin(Time now, ControlActions* out);
  // Whether the run was under way; it goes back then.
  bool HasBegun();
  // What all daemons that are here have on their disks. *own has to outlive the result: it becomes
  // this shard's hello.
  std::vector<Offer> Offers(pb::Hello* own) const;
  // Nobody has begun, and there is no checkpoint to go on from. False: some are there, and the job
  // ends.
  bool MayBeginAnew(const std::vector<Offer>& offers, Time now, ControlActions* out);
  // Whether all shards that keep something have said what is on their disks; asks them if not.
  bool ShardsHaveOffered(Time now, ControlActions* out);
  void SayWhereFrom(ControlActions* out) const;
  void AdmitGathered(Time now);
  std::string WhoIsMissing() const;

  JobState& job_;
  Ending& ending_;
  Membership& membership_;
  GoingBack& going_back_;
  Time asked_at_{};  // the shards, last
};

}  // namespace tern::protocol
