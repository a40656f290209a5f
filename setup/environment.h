// What the environment says of this process's place in a job, so that one job file serves every
// place: launchers (srun, mpirun, Kubernetes, torchrun, `tern launch`) number the processes that
// they start, and users say where the servers are. Flags and --set win over all of it. A variable
// that is set to nothing counts as not set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/place.h"
#include "proto/job.pb.h"

namespace tern::setup {

// Looks up a variable: its value, or null.
using Environment = std::function<const char*(const char* name)>;
// That of this process.
Environment ProcessEnvironment();

// A number, and the variable that has it.
struct EnvironmentNumber {
  uint32_t value = 0;
  const char* variable = "";
};

// The number of this process among those that a launcher has started: the first that is set of
// TERN_RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, JOB_COMPLETION_INDEX and RANK. Under
// torchrun (TORCHELASTIC_RUN_ID) only TERN_RANK and RANK count, and under mpirun SLURM_PROCID does
// not, because the others are then those of the node's launcher. nullopt: none is set. kUsage: the
// variable has no number; or it is SLURM_PROCID in a batch script of several tasks, outside srun.
Result<std::optional<EnvironmentNumber>> RankOf(const Environment& environment);
// The number of this process among those on its host: TERN_LOCAL_RANK, SLURM_LOCALID,
// OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID or LOCAL_RANK, by the same rules.
Result<std::optional<EnvironmentNumber>> LocalRankOf(const Environment& environment);
// How many processes the launcher has started: TERN_WORLD_SIZE, SLURM_NTASKS, OMPI_COMM_WORLD_SIZE,
// PMI_SIZE or WORLD_SIZE, by the same rules.
Result<std::optional<EnvironmentNumber>> WorldSizeOf(const Environment& environment);
// For messages, if there is no rank: the variables that RankOf looks for, and what Slurm lacks.
std::string RankVariables(const Environment& environment);
// For messages: the variables that WorldSizeOf looks for.
std::string WorldSizeVariables(const Environment& environment);

// The job file: TERN_JOB; "": not set.
std::string JobFileOf(const Environment& environment);

// The variable by which `tern run` and `tern launch` tell the members of one call of theirs from
// those of another: a random number that is not 0, in hexadecimal.
inline constexpr const char* kLaunchVariable = "TERN_LAUNCH";
// That number of this process; 0: it was not started so. kUsage: the variable has no such number.
Result<uint64_t> LaunchOf(const Environment& environment);
// The variable of the members of this launch, as "NAME=VALUE"; 0: the variable is not set.
std::string LaunchEntry(uint64_t launch);

// What replaces keys of the job file: TERN_SERVERS (HOST:PORT,HOST:PORT,...), TERN_WORKERS and
// TERN_OUTPUT_DIR.
config::Place PlaceOf(const Environment& environment);
// One line for each key of `job` that has its value from `place`.
std::vector<std::string> DescribePlace(const config::Place& place, const pb::Job& job);
// The variables of `PlaceOf` as "NAME=", which unset them for processes whose job has all keys.
std::vector<std::string> WithoutPlace();

}  // namespace tern::setup
