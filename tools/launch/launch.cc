// tern launch: runs N copies of a program as the workers of a job, and its servers, on this
// machine.
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "common/base/text.h"
#include "setup/environment.h"
#include "tools/commands.h"
#include "tools/launch/launch_hosts.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/launched_job.h"
#include "tools/launch/users_program.h"
#include "tools/run/local_job.h"

namespace tern::tools {
namespace {

Supervisor::Member ProgramMember(const LocalJob& local, const LaunchOptions& options, uint32_t rank,
                                 size_t num_threads) {
  ProcessSpec spec = SpecOf(local.log_dir, "worker", rank);
  spec.arguments = options.arguments;
  SetUsersProgram(options.program, local.job(), local.job_file, rank, num_threads, &spec);
  spec.set_environment.push_back(Cat("TERN_LOCAL_RANK=", rank));  // All are on this host.
  return WorkerMember(local, std::move(spec));
}

void PrintWhatIsAssumed(const LaunchOptions& options, const LocalJob& local, size_t num_threads,
                        setup::Screen* screen) {
  const pb::Job& job = local.job();
  if (options.job.job_file.empty()) {
    screen->PrintLine(Cat("no job file was given, so the job is ", LaunchedJobFile(job),
                          ": one server at ", job.servers(0).address(), ", codec ",
                          job.exchange().codec(), ", ", job.workers().count(), " workers"));
  }
  if (num_threads != 0) {
    screen->PrintLine(Cat("OMP_NUM_THREADS is not set, so it is ", num_threads, " for each of the ",
                          job.workers().count(), " programs"));
  }
}

// Flags and calls that need hosts.
Status CheckIsForOneMachine(const Arguments& arguments) {
  if (arguments.program().empty()) {
    return Status(Code::kUsage,
                  "PROGRAM is missing after --, as in: -- python train.py; a job of Tern's own "
                  "workers is started by `tern run JOB`, or on several hosts with -H a:2,b");
  }
  for (const char* flag : {"servers", "ssh", "tern", "workdir"}) {
    if (arguments.HasFlag(flag))
      return Status(Code::kUsage,
                    Cat("--", flag, " is only for several hosts; name them: -H a:2,b"));
  }
  return Ok();
}

}  // namespace

Status LaunchPrograms(const Arguments& arguments) {
  for (const char* flag : {"hosts", "hostfile", "slurm"}) {
    if (arguments.HasFlag(flag)) return LaunchOnHosts(arguments);
  }
  const Time run_begin = Now();
  Result<LaunchOptions> options = ReadLaunchOptions(arguments);
  if (!options.ok()) return options.status();
  TERN_RETURN_IF_ERROR(CheckIsForOneMachine(arguments));
  Result<std::string> program = FindUsersProgram(options->program);
  if (!program.ok()) return program.status();
  options->program = *std::move(program);
  if (!options->job.job_file.empty()) TERN_RETURN_IF_ERROR(CheckJobFile(options->job.job_file));
  const Result<pb::Job> job = ReadLaunchedJob(options->job);
  if (!job.ok()) return job.status();
  LocalJob local;
  local.max_restarts = options->max_restarts;
  local.log_dir =
      arguments.HasFlag("log_dir") ? arguments.LastValue("log_dir") : job->output_dir() + "/logs";
  TerminalLine stdout_line(STDOUT_FILENO);  // It waits for its reader when all else has ended.
  TERN_RETURN_IF_ERROR(PrepareFolders(*job, local.log_dir));
  const Result<FolderLock> lock = LockFolder(*job);
  if (!lock.ok()) return lock.status();
  TERN_RETURN_IF_ERROR(WriteJob(*job, &local));
  const setup::RunResult run_result(job->output_dir());
  signal(SIGPIPE, SIG_IGN);  // The job continues if the reader of this output ends.
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  setup::Screen screen(stdout_line);
  ProgramOutput program_output(
      [&stdout_line](const ProcessSpec& spec, bool is_stderr, std::string lines) {
        const std::string rank = spec.name.substr(spec.name.rfind(' ') + 1);
        PrintLines(Cat("[", rank, "] "), is_stderr, std::move(lines), &stdout_line);
      },
      [&stdout_line] { return stdout_line.Drain(Time(0)) && StderrLine().Drain(Time(0)); });
  auto members = ServerMembers(local);
  if (!members.ok()) return members.status();
  const uint32_t num_workers = job->workers().count();
  const size_t num_threads = ThreadsOfPrograms(num_workers);
  for (uint32_t rank = 0; rank < num_workers; ++rank)
    members->push_back(ProgramMember(local, *options, rank, num_threads));
  // The job file that they read has all keys, with ports that may be others than in TERN_SERVERS.
  for (Supervisor::Member& member : *members) {
    for (std::string& unset : setup::WithoutPlace())
      member.spec.set_environment.push_back(std::move(unset));
  }
  PrintWhatIsAssumed(*options, local, num_threads, &screen);
  return RunToItsEnd(local, *std::move(members), run_result, run_begin, &program_output,
                     &stop_signals, &screen);
}

}  // namespace tern::tools
