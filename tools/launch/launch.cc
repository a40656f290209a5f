// tern launch: runs N copies of a program as the workers of a job, and its servers, on this
// machine.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/cpus.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "setup/environment.h"
#include "tools/commands.h"
#include "tools/launch/launched_job.h"
#include "tools/run/local_job.h"

namespace tern::tools {
namespace {

constexpr uint32_t kMaxWorkers =
    1'000'000;  // The job's own limit is lower, and its message better.

// What was given on the command line and in the environment.
struct LaunchOptions {
  LaunchedJobOptions job;
  uint32_t max_restarts = 0;
  std::string program;                 // A path.
  std::vector<std::string> arguments;  // Of the program.
};

Result<LaunchOptions> ReadOptions(const Arguments& arguments) {
  LaunchOptions options;
  if (arguments.HasFlag("workers")) {
    const Result<uint32_t> num_workers = arguments.NumberValue("workers", kMaxWorkers);
    if (!num_workers.ok()) return num_workers.status();
    if (*num_workers == 0)
      return Status(Code::kUsage, "--workers: saw 0; allowed: the number of programs, from 1");
    options.job.num_workers = *num_workers;
  }
  const Result<uint32_t> max_restarts = arguments.NumberValue("restarts", 1'000'000);
  if (!max_restarts.ok()) return max_restarts.status();
  options.max_restarts = *max_restarts;
  const char* const job_variable = std::getenv("TERN_JOB");
  options.job.job_file = arguments.HasFlag("job")  ? arguments.LastValue("job")
                         : job_variable != nullptr ? job_variable
                                                   : "";
  options.job.overrides = arguments.AllValues("set");
  options.job.uses_free_ports = arguments.HasFlag("free_ports");
  Result<std::string> program = FindUsersProgram(arguments.program().front());
  if (!program.ok()) return program.status();
  options.program = *std::move(program);
  options.arguments.assign(arguments.program().begin() + 1, arguments.program().end());
  return options;
}

// Writes the job where the servers and the programs read it, and makes their setup of that file.
Status WriteJob(const pb::Job& job, LocalJob* local) {
  std::error_code error;
  local->job_file = std::filesystem::absolute(LaunchedJobFile(job), error).string();
  TERN_RETURN_IF_ERROR(WriteFileAtomically(
      local->job_file, "# Written by tern launch: the job as its servers and programs use it.\n" +
                           config::ToYaml(job)));
  auto setup = setup::MakeSetupWithoutTensors(local->job_file, {});
  if (!setup.ok()) return setup.status();
  local->setup = std::move(*setup);
  return Ok();
}

// How many threads each program's OpenMP gets; 0: the user says it in OMP_NUM_THREADS.
size_t ThreadsOf(uint32_t num_workers) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return 0;
  const auto cpus = CpusOfThisThread();
  return std::max<size_t>(1, cpus.ok() ? cpus->size() / num_workers : 1);
}

Supervisor::Member ProgramMember(const LocalJob& local, const LaunchOptions& options, uint32_t rank,
                                 size_t num_threads) {
  ProcessSpec spec = SpecOf(local, "worker", rank);
  spec.is_users_program = true;
  spec.program = options.program;
  spec.arguments = options.arguments;
  spec.set_environment = {Cat("TERN_RANK=", rank),
                          Cat("TERN_WORLD_SIZE=", local.job().workers().count()),
                          "TERN_JOB=" + local.job_file};
  // Python would keep the lines of a program whose output is no terminal until its end.
  spec.environment.emplace_back("PYTHONUNBUFFERED=1");
  if (num_threads != 0) spec.environment.push_back(Cat("OMP_NUM_THREADS=", num_threads));
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

}  // namespace

Status LaunchPrograms(const Arguments& arguments) {
  const Time run_begin = Now();
  const Result<LaunchOptions> options = ReadOptions(arguments);
  if (!options.ok()) return options.status();
  if (!options->job.job_file.empty()) TERN_RETURN_IF_ERROR(CheckJobFile(options->job.job_file));
  const Result<pb::Job> job = ReadLaunchedJob(options->job);
  if (!job.ok()) return job.status();
  LocalJob local;
  local.max_restarts = options->max_restarts;
  local.log_dir =
      arguments.HasFlag("log_dir") ? arguments.LastValue("log_dir") : job->output_dir() + "/logs";
  TERN_RETURN_IF_ERROR(PrepareFolders(*job, local.log_dir));
  const Result<FolderLock> lock = LockFolder(*job);
  if (!lock.ok()) return lock.status();
  TERN_RETURN_IF_ERROR(WriteJob(*job, &local));
  const setup::RunResult run_result(job->output_dir());
  signal(SIGPIPE, SIG_IGN);  // The job continues if the reader of this output ends.
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  TerminalLine stdout_line(STDOUT_FILENO);
  setup::Screen screen(stdout_line);
  ProgramOutput program_output(stdout_line);
  auto members = ServerMembers(local);
  if (!members.ok()) return members.status();
  const uint32_t num_workers = job->workers().count();
  const size_t num_threads = ThreadsOf(num_workers);
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
