// The definitions of `tern launch`, of what it starts on hosts, and of `tern member`.
#include "tools/command_table.h"
#include "tools/commands.h"
#include "tools/run_flags.h"

namespace tern::tools {
namespace {

using setup::kSetFlag;
using setup::PositionalDef;

constexpr PositionalDef kProgram = {"PROGRAM",
                                    "The program that each worker runs, with its arguments. A name "
                                    "without a slash is looked for in "
                                    "the folders of PATH. With hosts it may be missing: "
                                    "then the workers are tern_worker.",
                                    true};

constexpr PositionalDef kMemberJob = {
    "JOB",
    "The file of the job, which every host has under this path. Default: that of the environment "
    "variable TERN_JOB.",
    true};
constexpr PositionalDef kMemberProgram = {
    "PROGRAM",
    "The program that each worker runs, with its arguments, if the job's workers are programs of "
    "yours (train.compute: client or module).",
    true};

}  // namespace

Command LaunchCommand() {
  return {
      {"tern launch",
       "start a program of yours N times, or a job on several hosts, with the servers",
       "The program joins the job (train.compute: client) as a worker, over tern_train or "
       "client/tern.h. Each copy has its rank in TERN_RANK, its number on its host in "
       "TERN_LOCAL_RANK, their number in TERN_WORLD_SIZE, and in TERN_JOB the path of the job file "
       "with all keys as they are used, launched_job.yaml in the "
       "job's output_dir. Each line of its output has its rank in front; the whole output is in "
       "the "
       "folder of the logs. Where OMP_NUM_THREADS is not set, it becomes this machine's cores "
       "divided by N. If a program fails, the others end, the last sentence names the first that "
       "failed, and the exit code is that program's. SIGINT, SIGTERM or SIGHUP stop the job in "
       "order. When a program has ended, what it left running in its process group is killed. With "
       "-H, --hostfile or --slurm, workers and servers run on those hosts, each in the same folder "
       "as this "
       "command: they are started over ssh, which has to work without questions, and end with this "
       "command, however it ends. Tern has to be installed on the hosts, and the data has to be "
       "there. Where the job leaves this machine, its members get keys.",
       {{"JOB",
         "The file of the job: YAML, or protobuf text (.textproto, .pbtxt, .prototxt). --job names "
         "it, too.",
         true}},
       {{"workers", "N", "",
         "How many copies of the program to start; workers.count of the job becomes N. Default: "
         "the job's workers.count.",
         "n"},
        {"job", "JOB", "",
         "The file of the job. Default: that of the environment variable TERN_JOB, or else, for "
         "programs, a job with one server on a free port of this machine, codec ternary_ans, and "
         "output_dir tern_out."},
        {"hosts", "HOST:SLOTS,...", "",
         "The hosts, as ssh takes them, and how many workers each has: node0:2,user@node1,[::1]:2. "
         "Without :SLOTS it is one. Workers are numbered in this order. Their number is that of "
         "all slots, unless -n says fewer.",
         "H"},
        {"hostfile", "FILE", "",
         "A file with the hosts, one a line: HOST slots=N or HOST:N; # begins a comment."},
        {"slurm", "", "",
         "Inside an allocation of Slurm (sbatch, salloc): its nodes are the hosts, each with as "
         "many workers as it has tasks, and srun reaches them in place of ssh."},
        {"servers", "N", "",
         "With hosts: how many server shards there are, the first N hosts in turn. Default: the "
         "servers of the job, if they have other addresses than loopback, or else one a host."},
        {"ssh", "COMMAND", "ssh",
         "With hosts: what reaches them, words between spaces: \"ssh -F FILE -p 2222\"."},
        {"tern", "PATH", "", "With hosts: the path of tern there. Default: that of this program."},
        {"workdir", "DIR", "",
         "With hosts: the folder there in which the job runs. Default: the current folder's path."},
        kSetFlag,
        kRestartsFlag,
        kLogDirFlag,
        kFreePortsFlag},
       &kProgram},
      &LaunchPrograms};
}

Command MemberCommand() {
  return {
      {"tern member",
       "become the server or the worker that this task of a launcher is",
       "For srun, mpirun and others that start one command many times: srun tern member job.yaml. "
       "The first tasks are the job's servers, the others its workers, so there are as many tasks "
       "as servers and workers. The number of the task is the first that is set of TERN_RANK, "
       "SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, JOB_COMPLETION_INDEX and RANK. The process "
       "becomes tern_server or tern_worker, whose exit code it has; or, with a program, each "
       "worker becomes that, with its rank in TERN_RANK, their number in TERN_WORLD_SIZE and the "
       "job file in TERN_JOB.",
       {kMemberJob},
       {kSetFlag, kLogDirFlag},
       &kMemberProgram},
      &BecomeMember};
}

Command LaunchHostCommand() {
  return {
      {"tern launch_host",
       "start what `tern launch` wants on this host",
       "Started by `tern launch` over ssh, and spoken to over stdin and stdout. Ends everything "
       "that it has started when stdin ends.",
       {},
       {}},
      &RunLaunchHost,
      "",
      true};
}

}  // namespace tern::tools
