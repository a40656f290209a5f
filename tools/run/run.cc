// tern run: runs a job's servers and workers as processes on this machine.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "common/base/clock.h"
#include "common/base/folder_lock.h"
#include "common/base/output_file.h"
#include "common/base/signals.h"
#include "common/base/storage.h"
#include "common/base/text.h"
#include "common/base/trace.h"
#include "setup/command_line.h"
#include "setup/first_weights.h"
#include "setup/metrics_routes.h"
#include "setup/report.h"
#include "setup/screen.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/job_arguments.h"
#include "tools/run/ephemeral_keys.h"
#include "tools/run/free_ports.h"
#include "tools/run/job_trace.h"
#include "tools/run/member_failpoints.h"
#include "tools/run/run_result.h"
#include "tools/run/supervisor.h"
#include "worker/machine.h"

namespace tern::tools {
namespace {

constexpr Time kForever = std::chrono::hours(24 * 365 * 10);

// The command line of `tern run`, parsed and checked.
struct RunPlan {
  std::string job_file;
  std::vector<std::string> overrides;
  bool has_overrides = false;  // whether the user has given some
  std::unique_ptr<setup::Setup> setup;
  std::string log_dir;
  uint32_t max_restarts = 0;
  uint32_t trace_steps = 0;  // how many steps to record; 0: no trace
  std::map<std::string, std::vector<std::string>> fail_arguments;  // by the name of the process
};

Result<RunPlan> MakeRunPlan(const Arguments& arguments) {
  const Result<uint32_t> max_restarts = arguments.NumberValue("restarts", 1'000'000);
  if (!max_restarts.ok()) return max_restarts.status();
  const Result<uint32_t> trace_steps = arguments.NumberValue("trace", kMaxTraceSteps);
  if (!trace_steps.ok()) return trace_steps.status();
  RunPlan plan;
  plan.job_file = arguments.positional().front();
  if (JobPath(plan.job_file).starts_with("/dev/")) {
    return Status(Code::kUsage, Cat("the job cannot come from ", Printable(plan.job_file),
                                    ", because the daemons read it, too; write it to a file"));
  }
  plan.overrides = arguments.AllValues("set");
  plan.has_overrides = !plan.overrides.empty();
  plan.max_restarts = *max_restarts;
  plan.trace_steps = *trace_steps;
  auto setup = setup::MakeSetup(plan.job_file, plan.overrides);
  if (!setup.ok()) return setup.status();
  if (arguments.HasFlag("free_ports")) {
    const Result<std::vector<std::string>> port_overrides = FreePortOverrides((*setup)->job);
    if (!port_overrides.ok()) return port_overrides.status();
    plan.overrides.insert(plan.overrides.end(), port_overrides->begin(), port_overrides->end());
    setup = setup::MakeSetup(plan.job_file, plan.overrides);
    if (!setup.ok()) return setup.status();
  }
  TERN_RETURN_IF_ERROR(setup::ReadGivenWeights(setup->get()));
  (*setup)->given_weights.reset();  // Only the daemons need the weights.
  plan.setup = std::move(*setup);
  auto fail_arguments = ReadMemberFailpoints(arguments.AllValues("fail"),
                                             static_cast<uint32_t>(plan.setup->job.servers_size()),
                                             plan.setup->job.workers().count());
  if (!fail_arguments.ok()) return fail_arguments.status();
  plan.fail_arguments = std::move(*fail_arguments);
  plan.log_dir = arguments.HasFlag("log_dir") ? arguments.LastValue("log_dir")
                                              : plan.setup->job.output_dir() + "/logs";
  return plan;
}

ProcessSpec MakeSpec(const RunPlan& plan, const std::string& role, uint32_t rank,
                     const std::string& program) {
  ProcessSpec spec;
  spec.name = Cat(role, " ", rank);
  spec.program = program;
  spec.arguments = {"--job", plan.job_file, "--rank", Cat(rank), "--log_dir", plan.log_dir};
  for (const std::string& key_value : plan.overrides)
    spec.arguments.insert(spec.arguments.end(), {"--set", key_value});
  // OpenMP threads that spin while they wait would slow down the job's other processes.
  spec.environment = {"OMP_WAIT_POLICY=passive"};
  spec.stdout_path = Cat(plan.log_dir, "/", role, ".", rank, ".stdout");
  spec.stderr_path = Cat(plan.log_dir, "/", role, ".", rank, ".stderr");
  return spec;
}

// Gives each member its own keys of `keys`: the members are the servers, then the workers.
void GiveKeys(const EphemeralKeys& keys, std::vector<Supervisor::Member>* members) {
  for (size_t i = 0; i < keys.fds().size(); ++i) {
    ProcessSpec& spec = (*members)[i].spec;
    spec.inherited_fds.push_back(keys.fds()[i]);
    spec.arguments.insert(spec.arguments.end(), {"--keys_fd", Cat(keys.fds()[i])});
  }
}

Result<std::vector<Supervisor::Member>> MakeMembers(const RunPlan& plan, int progress_fd) {
  const Result<std::string> server_program = FindProgram("tern_server");
  if (!server_program.ok()) return server_program.status();
  const Result<std::string> worker_program = FindProgram("tern_worker");
  if (!worker_program.ok()) return worker_program.status();
  const protocol::Timings& timings = plan.setup->timings;
  const auto on_loss = plan.setup->job.faults().on_worker_loss();
  // After the loss of a worker, the job waits for it to come back (job_waits), or continues without
  // that worker (job_shrinks), or fails.
  const bool job_waits = on_loss == pb::Faults::wait, job_shrinks = on_loss == pb::Faults::shrink;
  // If the loss of a process ends the job, the other processes end within this time.
  const Time exit_time = timings.dead_after + std::chrono::seconds(2);
  std::vector<Supervisor::Member> members;
  for (uint32_t shard = 0; shard < plan.setup->plan.data_lanes.size(); ++shard) {
    ProcessSpec spec = MakeSpec(plan, "server", shard, *server_program);
    if (shard == 0) {
      spec.inherited_fds = {progress_fd};
      spec.arguments.insert(spec.arguments.end(), {"--progress_fd", Cat(progress_fd)});
    }
    // No server that a user starts can replace shard 0, the server that reports progress: a user's
    // server lacks the pipe for progress.
    members.push_back({std::move(spec), false, true,
                       shard == 0 ? exit_time : exit_time + timings.server_return_timeout,
                       exit_time});
  }
  for (uint32_t rank = 0; rank < plan.setup->plan.workers; ++rank) {
    // If the job shrinks, the other workers continue without this one until the end of the job.
    members.push_back({MakeSpec(plan, "worker", rank, *worker_program), true,
                       job_waits || job_shrinks,
                       job_shrinks ? kForever
                       : job_waits ? exit_time + timings.wait_timeout
                                   : exit_time,
                       job_shrinks ? kForever : exit_time});
  }
  for (Supervisor::Member& member : members) {
    const auto found = plan.fail_arguments.find(member.spec.name);
    if (found != plan.fail_arguments.end()) member.first_arguments = found->second;
    if (plan.trace_steps == 0) continue;
    // A process that is started again would overwrite the trace of the first.
    member.first_arguments.insert(member.first_arguments.end(), {"--trace", Cat(plan.trace_steps)});
  }
  return members;
}

// A non-blocking pipe for progress. Shard 0 gets the writing end, and must never wait for this
// process to read.
class ProgressPipe {
 public:
  ProgressPipe() {
    if (pipe2(pipe_fds_.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    // A pipe of this size holds minutes of progress while this process is stopped (Ctrl-Z).
    fcntl(pipe_fds_[1], F_SETPIPE_SZ, 1 << 20);
  }
  ~ProgressPipe() {
    for (const int fd : pipe_fds_) {
      if (fd >= 0) close(fd);
    }
  }
  ProgressPipe(const ProgressPipe&) = delete;
  ProgressPipe& operator=(const ProgressPipe&) = delete;
  int reader() const { return pipe_fds_[0]; }
  int writer() const { return pipe_fds_[1]; }

 private:
  std::array<int, 2> pipe_fds_ = {-1, -1};
};

Status PrepareFolders(const RunPlan& plan) {
  const std::string& output_dir = plan.setup->job.output_dir();
  TERN_RETURN_IF_ERROR(CheckOutputFolder(output_dir));
  for (const std::string& folder : {output_dir, plan.log_dir}) {
    if (const std::error_code error = Disk().CreateFolders(folder)) {
      return Status(Code::kCannotWrite,
                    Cat("cannot create the folder ", folder, ": ", error.message(),
                        "; give one that this user may write to"));
    }
  }
  if (const std::string warning = WarningOfOpenFolder(output_dir); !warning.empty())
    std::fprintf(stderr, "tern: %s\n", warning.c_str());
  return Ok();
}

// Makes one trace of those of all processes, and says where it is.
Status MergeTraces(const JobTrace& trace, setup::Screen* screen) {
  const JobTrace::Written written = trace.Merge();
  if (written.status.ok()) screen->PrintLine(written.sentence);
  return written.status;
}

// Locks the job's folder. Without the lock, a second `tern run` would truncate the logs of the
// first one before the second one's server finds the folder in use. Fails if another `tern run`, or
// a server that was started by hand, uses the folder.
Result<FolderLock> LockFolder(const pb::Job& job) {
  Result<FolderLock> lock = FolderLock::TryLock(job.output_dir(), "run.lock", job.name());
  if (!lock.ok()) return lock;
  TERN_RETURN_IF_ERROR(FolderLock::CheckFree(job.output_dir(), setup::kServerLock));
  if (!lock->is_held()) std::fprintf(stderr, "tern: %s\n", lock->warning().c_str());
  return lock;
}

// What one can do with the result of a job that has ended well.
std::string WhatNext(const RunPlan& plan) {
  const std::string weights = plan.setup->job.output_dir() + "/weights.safetensors";
  return Cat("what next: tern_worker --job ", plan.job_file, " --evaluate ", weights,
             " evaluates the weights", plan.has_overrides ? " (with the same --set)" : "",
             ", tern classify ", plan.job_file, " IMAGE --weights ", weights,
             " names an image's class, and PyTorch opens the file, too (docs/NETWORKS.md)");
}

Status ReportResult(const RunPlan& plan, const Supervisor& supervisor, const RunResult& run_result,
                    Time run_begin, setup::Screen* screen) {
  const Status verdict = supervisor.verdict();
  const std::string summary = setup::RunSummaryJson(
      supervisor.newest_progress(),
      {ExitCode(verdict), verdict.message(), supervisor.restarts(), Seconds(Now() - run_begin)});
  const RunResult::WrittenSummary written_summary =
      run_result.WriteSummary(summary, ExitCode(verdict));
  const std::string summary_table =
      supervisor.newest_progress().empty() ? "" : setup::SummaryTable(summary);
  screen->PrintLine(Cat(summary_table, "logs are in ", plan.log_dir, ", the summary is in ",
                        written_summary.path));
  if (verdict.ok() && written_summary.status.ok()) screen->PrintLine(WhatNext(plan));
  if (written_summary.kept_earlier_result)
    screen->PrintLine(
        "summary.json and weights.safetensors in that folder are still those of an earlier run");
  if (!written_summary.status.ok() && !verdict.ok())
    std::fprintf(stderr, "tern: cannot write the summary: %s\n",
                 written_summary.status.message().c_str());
  return setup::FinalStatus(verdict, written_summary.status);
}

}  // namespace

Status RunJob(const Arguments& arguments) {
  const Time run_begin = Now();
  const Result<RunPlan> plan = MakeRunPlan(arguments);
  if (!plan.ok()) return plan.status();
  TERN_RETURN_IF_ERROR(PrepareFolders(*plan));
  const Result<FolderLock> lock = LockFolder(plan->setup->job);
  if (!lock.ok()) return lock.status();
  const RunResult run_result(plan->setup->job.output_dir());
  const JobTrace trace(plan->setup->job.output_dir(),
                       static_cast<uint32_t>(plan->setup->job.servers_size()),
                       plan->setup->plan.workers);
  if (plan->trace_steps != 0) trace.RemoveOldFiles();
  signal(SIGPIPE, SIG_IGN);  // The job continues if the reader of this output ends.
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  const ProgressPipe progress_pipe;
  if (progress_pipe.reader() < 0)
    return Status(Code::kInternal, Cat("cannot create a pipe: ", std::strerror(errno)));
  Result<std::vector<Supervisor::Member>> members = MakeMembers(*plan, progress_pipe.writer());
  if (!members.ok()) return members.status();
  const auto keys = EphemeralKeys::MakeFor(plan->setup->job);
  if (!keys.ok()) return keys.status();
  GiveKeys(**keys, &*members);
  TerminalLine stdout_line(STDOUT_FILENO);
  setup::Screen screen(stdout_line);
  Supervisor::Options options;
  options.members = std::move(*members);
  options.max_restarts = plan->max_restarts;
  options.progress_fd = progress_pipe.reader();
  // Shard 0 reports progress twice a second. If shard 0 aborts the job, shard 0 may end up to two
  // heartbeats after the workers.
  options.max_report_delay = 2 * plan->setup->timings.heartbeat + std::chrono::milliseconds(700);
  if (const std::string url = setup::PageUrl(plan->setup->job); !url.empty())
    screen.PrintLine("the page of this job is " + url);
  for (const std::string& warning : worker::WarningsOfThreads(plan->setup->job))
    screen.PrintLine("warning: " + warning);
  Supervisor supervisor(std::move(options), stop_signals, screen);
  TERN_RETURN_IF_ERROR(supervisor.Run());
  const Status status = ReportResult(*plan, supervisor, run_result, run_begin, &screen);
  return plan->trace_steps == 0 ? status : setup::FinalStatus(status, MergeTraces(trace, &screen));
}

}  // namespace tern::tools
