// The intervals and deadlines of a job, from the section `faults` of job.proto.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/protocol/rounds/message.h"
#include "proto/wire.pb.h"

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
  Time progress_timeout{};       // see ProgressTimeout(); zero: the job sets none
};

// How long a worker whose connection was closed may take to say hello on another one: the time in
// which it sends a heartbeat and finds out, and a few hellos of which some get lost.
inline Time ReconnectTime(const Timings& timings) {
  return 2 * timings.heartbeat + 5 * timings.hello_retry;
}

// How long the training threads of a worker with these counters may stand still: the configured
// timeout, or else one minute or ten of its average steps, whichever is longer.
inline Time ProgressTimeout(const Timings& timings, const pb::Counters& counters) {
  if (timings.progress_timeout != Time::zero()) return timings.progress_timeout;
  const double num_steps = static_cast<double>(std::max<uint64_t>(1, counters.rounds()));
  const double ten_steps_s = 10 * counters.compute_s() / num_steps;
  return std::max<Time>(std::chrono::minutes(1), Time(static_cast<int64_t>(ten_steps_s * 1e9)));
}

}  // namespace tern::protocol
