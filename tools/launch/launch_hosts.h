// `tern launch` over several hosts.
#pragma once

#include "common/base/status.h"
#include "setup/arguments.h"

namespace tern::tools {

// Starts the job's servers and workers on the hosts that the command line names, over ssh, and
// supervises them until they end. The status is the job's.
Status LaunchOnHosts(const setup::Arguments& arguments);

}  // namespace tern::tools
