// The status of a job as JSON: what GET /status.json answers, for the page, `tern top` and scripts.
// docs/WATCHING.md lists the keys.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "server/status/job_status.h"
#include "setup/setup.h"

namespace tern::server {

// One JSON object. A value that is not known is null. `now`, by Now(), is later than `status.at`;
// times of silence include the time between.
std::string StatusJson(const setup::Setup& setup, const JobStatus& status, Time now);

}  // namespace tern::server
