// tern run: runs a job's servers and workers as processes on this machine.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/base/clock.h"
#include "common/base/shell_word.h"
#include "common/base/signals.h"
#include "common/base/text.h"
#include "common/base/trace.h"
#include "setup/command_line.h"
#include "setup/first_weights.h"
#include "setup/screen.h"
#include "setup/setup.h"
#include "tools/commands.h"
#include "tools/doctor/members.h"
#include "tools/doctor/ports.h"
#include "tools/run/free_ports.h"
#include "tools/run/job_trace.h"
#include "tools/run/local_job.h"
#include "tools/run/member_failpoints.h"
#include "worker/machine.h"

namespace tern::tools {
namespace {

// The command line of `tern run`, parsed and checked.
struct RunPlan {
  LocalJob local;
  uint32_t trace_steps = 0;  // how many steps to record; 0: no trace
  std::map<std::string, std::vector<std::string>> fail_arguments;  // by the name of the process
};

// The job of the file, whose workers are to be tern_worker.
Result<std::unique_ptr<setup::Setup>> SetupOf(const LocalJob& local) {
  auto setup = setup::MakeSetupWithoutTensors(local.job_file, local.overrides);
  if (!setup.ok() || !setup::HasForeignTable((*setup)->job)) return setup;
  return Status(Code::kBadJob, Cat(local.job_file, ": train.compute: saw ",
                                   pb::Train::Compute_Name((*setup)->job.train().compute()),
                                   ", so the workers are programs of yours, which "
                                   "`tern run` does not know; use `tern launch --job ",
                                   ShellWord(local.job_file), " -- PROGRAM`"));
}

// What one can do with the result of a job that has ended well.
std::string WhatNext(const LocalJob& local, bool has_overrides) {
  const bool has_average = algorithm::FactsOf(local.job()).has_average;  // which was evaluated
  const std::string weights =
      ShellWord(local.job().output_dir() +
                (has_average ? "/weights_average.safetensors" : "/weights.safetensors"));
  const std::string job_file = ShellWord(local.job_file);
  return Cat("what next", has_overrides ? " (with the same --set)" : "",
             ":\n  evaluate the weights:       tern_worker --job ", job_file, " --evaluate ",
             weights, "\n  name the class of an image: tern classify ", job_file,
             " IMAGE --weights ", weights, "\n  open them in PyTorch:       docs/NETWORKS.md");
}

// Refuses a job of which two daemons, all on this machine, have one port.
Status CheckPortsOf(const LocalJob& local) {
  return CheckPortsDiffer(local.job(), AllMembers(local.job())).Within(local.job_file);
}

Result<RunPlan> MakeRunPlan(const Arguments& arguments) {
  const Result<uint32_t> max_restarts = arguments.NumberValue("restarts", 1'000'000);
  if (!max_restarts.ok()) return max_restarts.status();
  const Result<uint32_t> trace_steps = arguments.NumberValue("trace", kMaxTraceSteps);
  if (!trace_steps.ok()) return trace_steps.status();
  RunPlan plan;
  LocalJob& local = plan.local;
  local.job_file = arguments.positional().front();
  TERN_RETURN_IF_ERROR(CheckJobFile(local.job_file));
  local.overrides = arguments.AllValues("set");
  const bool has_overrides = !local.overrides.empty();
  local.max_restarts = *max_restarts;
  plan.trace_steps = *trace_steps;
  auto setup = SetupOf(local);
  if (!setup.ok()) return setup.status();
  if (arguments.HasFlag("free_ports")) {
    const Result<std::vector<std::string>> port_overrides = FreePortOverrides((*setup)->job);
    if (!port_overrides.ok()) return port_overrides.status();
    local.overrides.insert(local.overrides.end(), port_overrides->begin(), port_overrides->end());
    setup = SetupOf(local);
    if (!setup.ok()) return setup.status();
  }
  TERN_RETURN_IF_ERROR(setup::ReadGivenWeights(setup->get()));
  (*setup)->given_weights.reset();  // Only the daemons need the weights.
  local.setup = std::move(*setup);
  TERN_RETURN_IF_ERROR(CheckPortsOf(local));
  auto fail_arguments = ReadMemberFailpoints(arguments.AllValues("fail"),
                                             static_cast<uint32_t>(local.job().servers_size()),
                                             local.job().workers().count());
  if (!fail_arguments.ok()) return fail_arguments.status();
  plan.fail_arguments = std::move(*fail_arguments);
  local.log_dir = arguments.HasFlag("log_dir") ? arguments.LastValue("log_dir")
                                               : local.job().output_dir() + "/logs";
  local.what_next = WhatNext(local, has_overrides);
  return plan;
}

Result<std::vector<Supervisor::Member>> MakeMembers(const RunPlan& plan) {
  auto members = ServerMembers(plan.local);
  if (!members.ok()) return members.status();
  for (uint32_t rank = 0; rank < plan.local.job().workers().count(); ++rank) {
    Result<ProcessSpec> spec = DaemonSpec(plan.local, "worker", rank);
    if (!spec.ok()) return spec.status();
    members->push_back(WorkerMember(plan.local, *std::move(spec)));
  }
  for (Supervisor::Member& member : *members) {
    const auto found = plan.fail_arguments.find(member.spec.name);
    if (found != plan.fail_arguments.end()) member.first_arguments = found->second;
    if (plan.trace_steps == 0) continue;
    // A process that is started again would overwrite the trace of the first.
    member.first_arguments.insert(member.first_arguments.end(), {"--trace", Cat(plan.trace_steps)});
  }
  return members;
}

// Makes one trace of those of all processes, and says where it is.
Status MergeTraces(const JobTrace& trace, setup::Screen* screen) {
  const JobTrace::Written written = trace.Merge();
  if (written.status.ok()) screen->PrintLine(written.sentence);
  return written.status;
}

}  // namespace

Status RunJob(const Arguments& arguments) {
  const Time run_begin = Now();
  const Result<RunPlan> plan = MakeRunPlan(arguments);
  if (!plan.ok()) return plan.status();
  const pb::Job& job = plan->local.job();
  TerminalLine stdout_line(STDOUT_FILENO);  // It waits for its reader when all else has ended.
  TERN_RETURN_IF_ERROR(PrepareFolders(job, plan->local.log_dir));
  const Result<FolderLock> lock = LockFolder(job);
  if (!lock.ok()) return lock.status();
  const setup::RunResult run_result(job.output_dir());
  const JobTrace trace(job.output_dir(), static_cast<uint32_t>(job.servers_size()),
                       job.workers().count());
  if (plan->trace_steps != 0) trace.RemoveOldFiles();
  signal(SIGPIPE, SIG_IGN);  // The job continues if the reader of this output ends.
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  Result<std::vector<Supervisor::Member>> members = MakeMembers(*plan);
  if (!members.ok()) return members.status();
  setup::Screen screen(stdout_line);
  for (const std::string& warning : worker::WarningsOfThreads(job))
    screen.PrintLine("warning: " + warning);
  const Status status = RunToItsEnd(plan->local, *std::move(members), run_result, run_begin,
                                    nullptr, &stop_signals, &screen);
  if (plan->trace_steps == 0) return status;
  return setup::FinalStatus(status, MergeTraces(trace, &screen));
}

}  // namespace tern::tools
