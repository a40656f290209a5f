// The command lines of tern_server and tern_worker, as data.
#pragma once

#include <string>

#include "setup/command_def.h"

namespace tern::setup {

// `role` is "server" or "worker".
const CommandDef& DaemonDef(const std::string& role);

}  // namespace tern::setup
