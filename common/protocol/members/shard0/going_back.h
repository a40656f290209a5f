// How a running job whose state is lost goes back to a checkpoint that all daemons have (see
// recovery.h). Here shard 0 tells the workers to say hello again; gathering.h then chooses the
// checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/ending.h"
#include "common/protocol/members/shard0/job_state.h"

namespace tern::protocol {

// A part of the Coordinator. It moves the job to kCalling and sets `reached_round`.
class GoingBack {
 public:
  GoingBack(JobState* job, Ending* ending) : job_(*job), ending_(*ending) {}

  // Tells all live workers to say hello as new incarnations; `why` goes to the log. REQUIRES a
  // running job.
  void GoBack(const std::string& why, Time now, ControlActions* out);
  // Call when no live worker holds the state of the job. The job goes back if it can; else it ends
  // with `code`. `what`: the event that caused the loss, for the log; may be empty. REQUIRES a
  // running job.
  void OnStateLost(const std::string& what, Code code, Time now, ControlActions* out);
  // If the control lane has found that the workers' replicas differ: goes back to a checkpoint of a
  // round at which they agreed, or ends the job.
  void CheckReplicas(Time now, ControlActions* out);
  // Whether all workers of the run `run` must go back to a checkpoint because of this hello: the
  // sender needs private state that exists only in the checkpoints on its disk (Hello.keeps_own).
  bool RequiresAllToGoBack(const pb::Hello& hello, uint64_t run) const;
  // Whether the private state of the sender is lost, because its disk has too few checkpoints of
  // the run `run`, and the job goes on with a private state that begins anew.
  bool BeginsOwnStateAnew(const pb::Hello& hello, uint64_t run) const;
  // Whether all workers of the run `run` must go back because a new process of a shard has sent
  // this hello: workers hold the weights, but what the shard's codecs keep from one sum to the next
  // exists only in the checkpoints on its disk.
  bool ShardRequiresAllToGoBack(const pb::Hello& hello, uint64_t run) const;
  // Call when a new process of this shard says hello to a running job. If its codecs have lost what
  // they kept: the job goes back and the result is true, or a log line says that they begin anew.
  bool GoBackForShard(uint32_t shard, const pb::Hello& hello, Time now, ControlActions* out);
  std::string WhyAllGoBackForShard(uint32_t shard) const;
  // Why all workers go back if RequiresAllToGoBack() for the hello of this rank.
  std::string WhyAllGoBackFor(uint32_t rank) const;
  // Tells every live worker that was ever admitted to say hello as a new incarnation. Returns false
  // if there is no such worker. REQUIRES a job that is going back, and knows why.
  bool CallWorkers(Time now, ControlActions* out);

 private:
  // Whether the job can restore the private state of the sender from checkpoints alone, and the
  // sender needs that.
  bool NeedsOwnCheckpoints(const pb::Hello& hello) const;
  void TellToGoBack(Roster::Worker* worker, ControlActions* out);

  JobState& job_;
  Ending& ending_;
};

}  // namespace tern::protocol
