// The intervals and deadlines of a job, from job.proto's `faults`.
#pragma once

#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct Timings {
  Time heartbeat{};              // between two heartbeats, and between two pulses
  Time suspect_after{};          // a peer that is silent for longer is suspect
  Time dead_after{};             // a worker that is silent for longer is lost
  Time start_timeout{};          // for all daemons to say hello
  Time wait_timeout{};           // for a lost worker to come back, if the job waits for it
  Time server_return_timeout{};  // for a silent shard to come back
  Time hello_retry{};            // between two hellos that are not answered
  Time resend_after{};           // between two sends of a message that is not answered
  Time progress_timeout{};       // for a compute thread to advance; zero: the larger of one minute
                                 // and ten steps
};

}  // namespace tern::protocol
