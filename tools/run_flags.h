// Flags of the commands that run a job.
#pragma once

#include "setup/command_def.h"

namespace tern::tools {

inline constexpr setup::FlagDef kRestartsFlag = {
    "restarts", "N", "0",
    "How often in all a process that is lost is started again, if the job's "
    "faults.on_worker_loss allows it."};
inline constexpr setup::FlagDef kLogDirFlag = {
    "log_dir", "DIR", "", "The folder of the logs. Default: logs in the job's output_dir."};
inline constexpr setup::FlagDef kFreePortsFlag = {
    "free_ports", "", "",
    "Use free ports of this machine instead of the job's, so that several jobs can run."};

}  // namespace tern::tools
