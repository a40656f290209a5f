// A running job whose state is lost goes back to a checkpoint that all have: see recovery.h. This
// is shard 0's first half of it, the calling; gathering.h chooses the checkpoint.
#pragma once

#include <string>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/ending.h"
#include "common/protocol/members/shard0/job_state.h"

namespace tern::protocol {

// Sets the job's phase to kCalling, and `reached`.
class GoingBack {
 public:
  GoingBack(JobState* job, Ending* ending) : job_(*job), ending_(*ending) {}

  // Tells all workers to say hello anew; `why` goes to the log. REQUIRES a running job.
  void GoBack(const std::string& why, Time now, ControlActions* out);
  // No live worker holds the state of the job: it goes back where it can, or ends with `code`.
  // `what` has happened; empty: nothing new. REQUIRES a running job.
  void LoseState(const std::string& what, Code code, Time now, ControlActions* out);
  // Whether a worker that comes to a running job takes all others back with it, because its own
  // state (Hello.keeps_own) is on its disk alone.
  bool TakesAllBack(const pb::Hello& hello) const;
  // Tells every live worker that was ever admitted to say hello anew. False if there is none.
  // REQUIRES a job that is going back.
  bool CallAnew(Time now, ControlActions* out);

 private:
  void TellToGoBack(Roster::Worker* worker, ControlActions* out);

  JobState& job_;
  Ending& ending_;
};

}  // namespace tern::protocol
