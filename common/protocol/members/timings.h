// The intervals and deadlines of a job, from the section `faults` of job.proto.
#pragma once

#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct Timings {
  // The time between two heartbeats of a worker, and between two pulses (a shard's heartbeats).
  Time heartbeat{};
  Time suspect_after{};          // a peer that is silent for longer is suspect
  Time dead_after{};             // a worker that is silent for longer is lost
  Time start_timeout{};          // how long shard 0 waits for all daemons to say hello
  Time wait_timeout{};           // how long the job waits for a lost worker, if it waits
  Time server_return_timeout{};  // how long the other daemons wait for a silent shard
  Time hello_retry{};            // how long a hello may be unanswered before it is sent again
  Time resend_after{};           // the same for messages other than hellos
  // A worker whose compute thread stands still for longer is lost. Zero: one minute or ten average
  // steps of the worker, whichever is longer.
  Time progress_timeout{};
};

}  // namespace tern::protocol
