// How shard 0 waits for the workers of a job that does not run (phases kGathering to kAsking), and
// decides where the job begins: from initial weights, from the state that some workers hold, or
// from a checkpoint (recovery.h).
//
// A new job waits for all workers. If faults.on_worker_loss is `shrink`, workers.min is set, and
// that many have come when the start timeout is over, it begins with these; others join later. With
// workers.max, it begins as soon as workers.count are here. But if these know of an earlier run and
// have no checkpoint from which the job can go on, it waits for other ranks, until the start
// timeout: new ranks, with empty disks, may have said hello first.
//
// After a restart of shard 0, the workers' hellos tell shard 0 again what it must know. If
// faults.on_worker_loss is `shrink`, shard 0 then does not wait for ranks that the other workers
// report as removed, and after the start timeout it does not wait for any missing rank.
//
// The floor is the newest round that all members have applied; the outcomes of rounds up to the
// floor are dropped.
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

  // Call after a hello was admitted: runs the job if no required worker is missing. REQUIRES a job
  // that does not run.
  void RunIfGathered(Time now, ControlActions* out);
  // Runs the job once it need not wait for the missing workers any longer. Ends the job if workers
  // or checkpoint offers that it needs are still missing at the deadline.
  void OnTimer(Time now, ControlActions* out);

 private:
  // Whether no required worker is missing. HasGatheredAgain answers this for a job that is going
  // back.
  bool HasGathered(Time now) const;
  bool HasGatheredAgain(Time now) const;
  // Whether the other workers report every missing rank as removed. Used for a job with `shrink`
  // after a restart of shard 0.
  bool OnlyRemovedAreMissing() const;
  // Ends the job, and returns true, if the job had begun, workers hold its state, and no live
  // worker has it. Else asks workers whose state is too old to say hello again, and returns whether
  // the job must wait for them.
  bool MustNotRunYet(Time now, ControlActions* out);
  // Asks each worker that has not applied the rounds up to the floor of its run, as the other
  // workers' hellos say it, to say hello again. Returns whether there is such a worker.
  bool AskWorkersBelowFloor(ControlActions* out);
  // After a restart of shard 0: why the workers that hold the state of the job must go back, too. A
  // worker without state then needs private state that is on its disk alone, or a new process of a
  // shard needs its codecs' memory. Else empty.
  std::string WhyHoldersGoBack() const;
  // Whether TryToChooseBegin must choose where the job begins.
  bool MustChooseBegin() const;
  // Returns whether the job's `begin` is chosen. If not, does the next step towards the choice.
  bool TryToChooseBegin(Time now, ControlActions* out);
  // Returns whether the run was under way before the workers gathered. If so, and if the job is not
  // going back yet, the phase becomes kResuming, from which the job goes back to a checkpoint.
  bool HasBegun();
  // The hello that offers the checkpoints of this shard. REQUIRES that the shard keeps state.
  pb::Hello OwnHello() const;
  // Lets daemons that were started with checkpoints.resume: false offer what they have of the run
  // under way. With `shrink`, workers then offer nothing else: one that has checkpoints of another
  // run is new to this one. Not needed where the servers hold the parameters: their checkpoints are
  // enough.
  void OfferCheckpointsOfRun();
  // The offer of the worker with this hello, which must outlive the result.
  Offer OfferOf(const pb::Hello& hello) const;
  // Returns the checkpoint offers of all daemons that have said hello, and of this shard. Writes
  // this shard's offer to *own_hello, which must outlive the result.
  std::vector<Offer> CollectOffers(pb::Hello* own_hello) const;
  // REQUIRES offers without a common checkpoint. Returns whether the job may start from initial
  // weights; if not, ends the job once all shards have said hello.
  bool MayBeginAnew(const std::vector<Offer>& offers, Time now, ControlActions* out);
  // REQUIRES offers without a common checkpoint, of a run that has begun and whose state is lost.
  // Returns whether the job may go back to its beginning; if not, ends the job.
  bool MayGoBackToBeginning(const std::vector<Offer>& offers, Time now, ControlActions* out);
  // After TryToChooseBegin has chosen `begin` for workers whose replicas differed: returns why the
  // job must end instead, or an empty string.
  std::string WhyNotRepair() const;
  // For a job with `shrink` whose `begin` is chosen: whether it waits for missing ranks. It does
  // for a time if the daemons here have no checkpoint to go on from, but know of an earlier run
  // (AnyKnowsARun). `has_begun`: the job goes back, so there is a run; it then also waits if a
  // missing rank has written a newer checkpoint than the chosen.
  bool WaitsForCheckpoints(bool has_begun, const std::vector<Offer>& offers, Time now,
                           ControlActions* out);
  // Returns whether all shards that keep state have offered their checkpoints. Asks those that have
  // not for their offers.
  bool ShardsHaveOffered(Time now, ControlActions* out);
  void LogBegin(ControlActions* out) const;  // logs from which state the job continues
  // Logs with what size the job continues if that is another than before, and what is dropped.
  void LogOtherSize(ControlActions* out) const;
  // Whether workers load the chosen checkpoint, and the sender of this hello, who does not need it,
  // has none.
  bool LacksCheckpoint(const pb::Hello& hello) const;
  void AdmitGathered(Time now);
  std::string WhoIsMissing() const;

  JobState& job_;
  Ending& ending_;
  Membership& membership_;
  GoingBack& going_back_;
  Time asked_at_{};               // when the shards were last asked for their checkpoints
  bool has_logged_wait_ = false;  // whether the log says that a start waits for checkpoints
};

}  // namespace tern::protocol
