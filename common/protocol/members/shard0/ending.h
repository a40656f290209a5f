// How shard 0 ends a job: successfully, stopped by a signal, or with an error that it tells all
// daemons.
//
// In a job without rounds, the data lanes of the shards (the state machines behind their sockets)
// hold the state of the job, and each counts for itself how many steps the workers have made. So
// that a stop leaves one checkpoint that all lanes have, shard 0 alone names its step:
//
//   running --signal--> stopping --Bye of the last worker--> ending --all have answered--> ended
//
//   stopping  The lanes of shard 0 say `stop` in their answers. Each worker ends the exchange with
//             all lanes in which it is, sends Parting to all lanes and waits for their answers,
//             evaluates, and says Bye. So the lanes change no more.
//   ending    The messages End and Abort name the step that shard 0's lanes have reached. Every
//             shard that gets one of them writes its state as the checkpoint of that step.
//
// After an error (Abort) the lanes may differ by the pushes that were on their way, as they may in
// every checkpoint of such a job (server/lane_checkpoints.h).
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

  // Handles a stop signal. If the job does not run, or a worker or shard is missing, ends the job
  // at once; else the job ends after the round in progress.
  void OnStop(Code code, Time now, ControlActions* out);
  // Does the same for a stop signal that another daemon received. `who` names that daemon for the
  // log; `code` is 130 (SIGINT) or 143 (SIGTERM).
  void OnStopFrom(const std::string& who, uint32_t code, Time now, ControlActions* out);
  // Sends End to all daemons if every worker is done. If faults.on_worker_loss is `shrink`, only
  // the remaining workers must be done.
  void EndIfAllDone(Time now, ControlActions* out);
  // Ends the job with an error, which all daemons are told.
  void Abort(Code code, const std::string& sentence, Time now, ControlActions* out);
  // Ends the job with an error of a server shard. If the shard has lost its part of the state
  // (kBadData), no shard writes a last checkpoint: the newest that all have must stay the newest.
  void AbortForShard(const Status& error, const std::string& sentence, Time now,
                     ControlActions* out);

  // While the job is ending, messages and time go to the Farewell, which repeats the last message.
  // REQUIRES the phase kEnding.
  void OnMessage(Peer from, const Message& message, ControlActions* out) {
    farewell_.OnMessage(from, message, out);
  }
  void OnTimer(Time now, ControlActions* out) { farewell_.OnTimer(now, out); }

  // Checks what must hold after every event: kInternal, with the invariant that is broken, or ok.
  Status Check() const;

 private:
  // Abort() with `last_step` for the last checkpoint; 0: none is written.
  void AbortAt(uint64_t last_step, Code code, const std::string& sentence, Time now,
               ControlActions* out);
  // The status of a job whose workers are all done: ok, or the code of the stop request that ended
  // the job before its last step.
  Status FinalStatus() const;
  // How many steps all workers that are done have done; with rounds only.
  uint64_t StepsDone() const;
  // The step as whose checkpoint all lanes write their last state; 0: they write none.
  // LastStepAtEnd: after an orderly end. LastStep: after an Abort; with rounds 0, because workers
  // write no checkpoint then, and the lanes' would push out the newest that all have.
  uint64_t LastStepAtEnd() const;
  uint64_t LastStep() const;
  // How long to wait for this daemon's answer to an Abort; zero, or a time that has passed: not at
  // all.
  Time AbortDeadline(const Farewell::Recipient& recipient, Time now) const;
  // Returns all workers and all shards but shard 0, to which the last message goes, and how long to
  // wait for the answer of each to an End.
  std::vector<Farewell::Recipient> Recipients(Time now) const;

  JobState& job_;
  Farewell farewell_;
};

}  // namespace tern::protocol
