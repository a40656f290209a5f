// How shard 0 ends a job: successfully, stopped by a signal, or with an error that it tells all
// daemons.
#pragma once

#include <string>
#include <vector>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/farewell.h"
#include "common/protocol/members/shard0/job_state.h"

namespace tern::protocol {

// A part of the Coordinator. It alone sets the job's stop_code and moves the job to kEnding.
class Ending {
 public:
  explicit Ending(JobState* job) : job_(*job) {}

  // Handles a stop signal. If the job does not run or workers are missing, ends the job at once;
  // else the job ends after the round in progress.
  void OnStop(Code code, Time now, ControlActions* out);
  // Does the same for a stop signal that another daemon received. `who` names that daemon for the
  // log; `code` is 130 (SIGINT) or 143 (SIGTERM).
  void OnStopFrom(const std::string& who, uint32_t code, Time now, ControlActions* out);
  // Sends End to all daemons if every worker is done. If faults.on_worker_loss is `shrink`, only
  // the remaining workers must be done.
  void EndIfAllDone(Time now, ControlActions* out);
  // Ends the job with an error, which all daemons are told.
  void Abort(Code code, const std::string& sentence, Time now, ControlActions* out);

  // While the job is ending, messages and time go to the Farewell, which repeats the last message.
  // REQUIRES the phase kEnding.
  void OnMessage(Peer from, const Message& message, ControlActions* out) {
    farewell_.OnMessage(from, message, out);
  }
  void OnTimer(Time now, ControlActions* out) { farewell_.OnTimer(now, out); }

  // Checks what must hold after every event: kInternal, with the invariant that is broken, or ok.
  Status Check() const;

 private:
  // The status of a job whose workers are all done: ok, or the code of the stop request that ended
  // the job before its last step.
  Status FinalStatus() const;
  // Whether to wait for this daemon's answer to an Abort.
  bool MustHearOfAbort(const Farewell::Recipient& recipient, Time now) const;
  // Returns all workers and all shards but shard 0, to which the last message goes.
  std::vector<Farewell::Recipient> Recipients() const;

  JobState& job_;
  Farewell farewell_;
};

}  // namespace tern::protocol
