#include "setup/daemon_def.h"

namespace tern::setup {
namespace {

constexpr FlagDef kJobFlag = {
    "job", "JOB", "",
    "The file of the job: YAML, or protobuf text (.textproto, .pbtxt, .prototxt). Default: that of "
    "the environment variable TERN_JOB."};
constexpr FlagDef kCheckFlag = {"check", "", "",
                                "Read and check the job, print it with all defaults, and exit."};
constexpr FlagDef kLogDirFlag = {"log_dir", "DIR", "",
                                 "The folder of the logs. Default: logs in the job's output_dir."};
constexpr FlagDef kProgressFlag = {
    "progress_fd", "N", "",
    "An open file descriptor, to which progress is written as one JSON object a line."};
constexpr FlagDef kKeysFlag = {
    "keys_fd", "N", "", "An open file descriptor with this daemon's keys, which `tern run` makes."};
constexpr FlagDef kFailFlag = {"fail", "FAILPOINT", "",
                               "Let this process fail on purpose, for drills. May be repeated; "
                               "--fail list describes the failpoints."};
constexpr FlagDef kTraceFlag = {
    "trace", "N", "0",
    "Record what this process does in N steps of the job, in trace.ROLE.RANK.json in the job's "
    "output_dir; 0: nothing. `tern run --trace` makes one file of those of all processes."};
// Of glog.
constexpr FlagDef kVerbosityFlag = {"v", "N", "0", "Log messages up to this level of verbosity."};

CommandDef MakeServerDef() {
  return {
      "tern_server",
      "run a shard of the parameter server of a job",
      "The shard waits for the job's workers, adds up their gradients, and ends with the job. "
      "SIGTERM, SIGINT or SIGHUP stop the job in order; a second one ends the process at once.",
      {},
      {kJobFlag,
       {"rank", "N", "",
        "The number of this shard in the job's list `servers`, from 0. Default: that of the "
        "environment, from the first that is set of TERN_RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, "
        "PMI_RANK, JOB_COMPLETION_INDEX and RANK."},
       kSetFlag,
       kCheckFlag,
       kLogDirFlag,
       kProgressFlag,
       kKeysFlag,
       kFailFlag,
       kTraceFlag,
       kVerbosityFlag,
       kVersionFlag}};
}

CommandDef MakeWorkerDef() {
  return {
      "tern_worker",
      "run a worker of a job, or evaluate weights",
      "The worker connects to the job's servers, trains, and ends with the job. SIGTERM, SIGINT or "
      "SIGHUP stop the job in order; a second one ends the process at once.",
      {},
      {kJobFlag,
       {"rank", "N", "",
        "The number of this worker, 0 to workers.max - 1 (workers.count - 1 without max). Default: "
        "that of the environment, from "
        "the first that is set of TERN_RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, "
        "JOB_COMPLETION_INDEX and RANK; with --evaluate 0."},
       kSetFlag,
       kCheckFlag,
       {"evaluate", "FILE", "",
        "Evaluate these weights (safetensors) on the test set, without a server, and exit."},
       kLogDirFlag,
       kProgressFlag,
       kKeysFlag,
       kFailFlag,
       kTraceFlag,
       kVerbosityFlag,
       kVersionFlag}};
}

}  // namespace

const CommandDef& DaemonDef(const std::string& role) {
  static const CommandDef server = MakeServerDef();
  static const CommandDef worker = MakeWorkerDef();
  return role == "server" ? server : worker;
}

}  // namespace tern::setup
