// The intervals and deadlines of a job, from job.proto's `faults`.
#pragma once

#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct Timings {
  Time heartbeat{};              // between two heartbeats, and between two pulses
  Time suspect_after{};          // a peer that is silent for longer is suspect
  Time dead_after{};             // a worker that is silent for longer is lost
  Time start_timeout{};          // how long shard 0 waits for all daemons to say hello
  Time wait_timeout{};           // how long the job waits for a lost worker, if it waits
  Time server_return_timeout{};  // how long the others wait for a silent shard
  Time hello_retry{};            // between two hellos that are not answered
  Time resend_after{};           // between two sends of a message that is not answered
  Time progress_timeout{};       // a worker whose compute thread stands still for longer is lost;
                                 // zero: the larger of one minute and ten steps
};

}  // namespace tern::protocol
