// How shard 0 ends a job: well, stopped by a signal, or with an error that everybody is told.
#pragma once

#include <string>
#include <vector>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/farewell.h"
#include "common/protocol/members/shard0/job_state.h"

namespace tern::protocol {

// Sets the job's stop_code, and its phase to kEnding.
class Ending {
 public:
  explicit Ending(JobState* job) : job_(*job) {}

  // A signal asks for an orderly end: now where workers are missing, else after the open round.
  void OnStop(Code code, Time now, ControlActions* out);
  // The same for a signal that `who` received; `code` as on the wire.
  void OnStopFrom(const std::string& who, uint32_t code, Time now, ControlActions* out);
  void EndIfAllDone(Time now, ControlActions* out);
  void Abort(Code code, const std::string& sentence, Time now, ControlActions* out);

  // REQUIRES the phase kEnding.
  void OnMessage(Peer from, const Message& message, ControlActions* out) {
    farewell_.OnMessage(from, message, out);
  }
  void OnTimer(Time now, ControlActions* out) { farewell_.OnTimer(now, out); }

  // kInternal names the invariant that is broken.
  Status Check() const;

 private:
  // Of a job whose workers are all done: ok, or stopped before its last step.
  Status Outcome() const;
  std::vector<Farewell::Guest> Guests() const;

  JobState& job_;
  Farewell farewell_;
};

}  // namespace tern::protocol
