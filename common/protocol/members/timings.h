// The intervals and deadlines of a job, from job.proto's `faults`.
#pragma once

#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct Timings {
  Time heartbeat{}, suspect_after{}, dead_after{}, start_timeout{}, wait_timeout{},
      server_return_timeout{};
  Time hello_retry{}, resend_after{};
  Time progress_timeout{};  // zero: the larger of one minute and ten steps
};

}  // namespace tern::protocol
