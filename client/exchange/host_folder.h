// The folder in which the workers of one job on one host find each other (exchange.host_sum).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

// Makes TMPDIR/tern-USER-NAME, which only this user can enter, and returns its path; TMPDIR is /tmp
// if unset, USER the number of the user. NAME is the same for all workers of this `run` of the job
// that share a host and its network: those of another job, another run, another machine or another
// network namespace have another. kNotAllowed if another user has the folder or can enter
// it; kAddress if it cannot be made, or its path is too long for a socket.
Result<std::string> MakeHostFolder(const setup::Setup& setup, uint64_t run);

}  // namespace tern::client
