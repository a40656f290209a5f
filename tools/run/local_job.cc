#include "tools/run/local_job.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/output_file.h"
#include "common/base/storage.h"
#include "common/base/text.h"
#include "setup/command_line.h"
#include "setup/environment.h"
#include "setup/metrics_routes.h"
#include "setup/report.h"
#include "setup/saved.h"
#include "tools/job_arguments.h"
#include "tools/run/ephemeral_keys.h"
#include "tools/run/progress_pipe.h"

namespace tern::tools {
namespace {

constexpr Time kForever = std::chrono::hours(24 * 365 * 10);

// Gives each member its own keys of `keys`: the members are the servers, then the workers.
void GiveKeys(const EphemeralKeys& keys, std::vector<Supervisor::Member>* members) {
  for (size_t i = 0; i < keys.fds().size(); ++i) {
    ProcessSpec& spec = (*members)[i].spec;
    GiveKeysFd(keys.fds()[i], &spec);
  }
}

// If the loss of a process ends the job, the other processes end within this time.
Time ExitTime(const LocalJob& local) {
  return local.setup->timings.dead_after + std::chrono::seconds(2);
}

// Warns of a job that has ended well, but whose last report found no room in the pipe.
void WarnIfFiguresAreOld(const LocalJob& local, const Supervisor& supervisor,
                         setup::Screen* screen) {
  const auto newest = setup::ParseProgressUpdate(supervisor.newest_progress());
  if (!supervisor.verdict().ok() || (newest.has_value() && newest->has_ended)) return;
  screen->PrintLine(Cat("warning: server 0 ended well, but its last report did not arrive; these ",
                        "figures are older, and its own are in ", local.job().output_dir(),
                        "/server.0.json"));
}

Status ReportResult(const LocalJob& local, const Supervisor& supervisor,
                    const setup::RunResult& run_result, Time run_begin, setup::Screen* screen) {
  const Status verdict = supervisor.verdict();
  const std::string summary = setup::RunSummaryJson(
      supervisor.newest_progress(),
      {ExitCode(verdict), verdict.message(), supervisor.restarts(), Seconds(Now() - run_begin)});
  const setup::RunResult::WrittenSummary written_summary =
      run_result.WriteSummary(summary, ExitCode(verdict));
  const std::string summary_table =
      supervisor.newest_progress().empty() ? "" : setup::SummaryTable(summary);
  std::error_code error;  // Without the folder, its path would be of no use.
  std::vector<std::string> places;
  if (std::filesystem::exists(local.log_dir, error))
    places.push_back("logs are in " + local.log_dir);
  if (written_summary.status.ok()) places.push_back("the summary is in " + written_summary.path);
  WarnIfFiguresAreOld(local, supervisor, screen);
  screen->PrintLine(summary_table + Join(places));
  if (verdict.ok() && written_summary.status.ok() && !local.what_next.empty())
    screen->PrintLine(local.what_next);
  if (written_summary.kept_earlier_result)
    screen->PrintLine(Cat("summary.json ",
                          setup::IsClientJob(local.job()) ? "in that folder is still that"
                                                          : "and weights.safetensors in that "
                                                            "folder are still those",
                          " of an earlier run"));
  if (!written_summary.status.ok() && !verdict.ok())
    StderrLine().Print("tern: cannot write the summary: " + written_summary.status.message());
  return setup::FinalStatus(verdict, written_summary.status);
}

}  // namespace

Status CheckJobFile(const std::string& job_file) {
  if (!JobPath(job_file).starts_with("/dev/")) return Ok();
  return Status(Code::kUsage, Cat("the job cannot come from ", Printable(job_file),
                                  ", because the daemons read it, too; write it to a file"));
}

Status PrepareFolders(const pb::Job& job, const std::string& log_dir) {
  TERN_RETURN_IF_ERROR(CheckOutputFolder(job.output_dir()));
  for (const std::string& folder : {job.output_dir(), log_dir}) {
    if (const std::error_code error = Disk().CreateFolders(folder)) {
      return Status(Code::kCannotWrite,
                    Cat("cannot create the folder ", folder, ": ", error.message(),
                        "; give one that this user may write to"));
    }
  }
  if (const std::string warning = WarningOfOpenFolder(job.output_dir()); !warning.empty())
    std::fprintf(stderr, "tern: %s\n", warning.c_str());
  return Ok();
}

Result<FolderLock> LockFolder(const pb::Job& job) {
  Result<FolderLock> lock = FolderLock::TryLock(job.output_dir(), "run.lock", job.name());
  if (!lock.ok()) return lock;
  TERN_RETURN_IF_ERROR(FolderLock::CheckFree(job.output_dir(), setup::kServerLock));
  if (!lock->is_held()) std::fprintf(stderr, "tern: %s\n", lock->warning().c_str());
  return lock;
}

ProcessSpec SpecOf(const std::string& log_dir, const std::string& role, uint32_t rank) {
  ProcessSpec spec;
  spec.name = Cat(role, " ", rank);
  // OpenMP threads that spin while they wait would slow down the job's other processes.
  spec.environment = {"OMP_WAIT_POLICY=passive"};
  spec.stdout_path = Cat(log_dir, "/", role, ".", rank, ".stdout");
  spec.stderr_path = Cat(log_dir, "/", role, ".", rank, ".stderr");
  return spec;
}

Result<ProcessSpec> DaemonSpec(const LocalJob& local, const std::string& role, uint32_t rank) {
  Result<std::string> program = FindProgram("tern_" + role);
  if (!program.ok()) return program.status();
  ProcessSpec spec = SpecOf(local.log_dir, role, rank);
  spec.program = *std::move(program);
  spec.takes_user_signals = true;
  spec.arguments = {"--job", local.job_file, "--rank", Cat(rank), "--log_dir", local.log_dir};
  for (const std::string& key_value : local.overrides)
    spec.arguments.insert(spec.arguments.end(), {"--set", key_value});
  return spec;
}

void GiveKeysFd(int keys_fd, ProcessSpec* spec) {
  spec->inherited_fds.push_back(keys_fd);
  if (spec->is_users_program) {
    spec->set_environment.push_back(Cat("TERN_KEYS_FD=", keys_fd));
  } else {
    spec->arguments.insert(spec->arguments.end(), {"--keys_fd", Cat(keys_fd)});
  }
}

Supervisor::Member WorkerMember(const LocalJob& local, ProcessSpec spec) {
  const auto on_loss = local.job().faults().on_worker_loss();
  // After the loss of a worker, the job waits for it to come back (job_waits), or continues without
  // that worker (job_shrinks), or fails.
  const bool job_waits = on_loss == pb::Faults::wait, job_shrinks = on_loss == pb::Faults::shrink;
  const Time exit_time = ExitTime(local);
  Supervisor::Member member;
  member.spec = std::move(spec);
  member.is_worker = true;
  member.job_waits = job_waits || job_shrinks;
  member.return_time = job_shrinks ? kForever : local.setup->timings.wait_timeout;
  // If the job shrinks, the other workers continue without this one until the end of the job.
  member.grace = job_shrinks ? kForever
                 : job_waits ? exit_time + local.setup->timings.wait_timeout
                             : exit_time;
  member.grace_if_irreplaceable = job_shrinks ? kForever : exit_time;
  return member;
}

Supervisor::Member ServerMember(const LocalJob& local, uint32_t shard, ProcessSpec spec) {
  const Time exit_time = ExitTime(local), return_time = local.setup->timings.server_return_timeout;
  // No server that a user starts can replace shard 0, the server that reports progress: a user's
  // server lacks the pipe for progress.
  return {
      std::move(spec), false, true, return_time, shard == 0 ? exit_time : exit_time + return_time,
      exit_time};
}

Result<std::vector<Supervisor::Member>> ServerMembers(const LocalJob& local) {
  std::vector<Supervisor::Member> members;
  for (uint32_t shard = 0; shard < static_cast<uint32_t>(local.job().servers_size()); ++shard) {
    Result<ProcessSpec> spec = DaemonSpec(local, "server", shard);
    if (!spec.ok()) return spec.status();
    members.push_back(ServerMember(local, shard, *std::move(spec)));
  }
  return members;
}

Status RunToItsEnd(const LocalJob& local, std::vector<Supervisor::Member> members,
                   const setup::RunResult& result, Time run_begin, ProgramOutput* program_output,
                   StopSignals* stop_signals, setup::Screen* screen) {
  const ProgressPipe progress_pipe;
  TERN_RETURN_IF_ERROR(progress_pipe.status());
  ProcessSpec& shard0 = members.front().spec;
  shard0.inherited_fds = {progress_pipe.writer()};
  shard0.arguments.insert(shard0.arguments.end(), {"--progress_fd", Cat(progress_pipe.writer())});
  const auto keys = EphemeralKeys::MakeFor(local.job());
  if (!keys.ok()) return keys.status();
  GiveKeys(**keys, &members);
  const std::string launch = setup::LaunchEntry(setup::RandomIncarnation());
  for (Supervisor::Member& member : members) member.spec.set_environment.push_back(launch);
  Supervisor::Options options;
  options.members = std::move(members);
  options.progress_fd = progress_pipe.reader();
  options.program_output = program_output;
  return SuperviseToTheEnd(local, std::move(options), result, run_begin, stop_signals, screen);
}

Status SuperviseToTheEnd(const LocalJob& local, Supervisor::Options options,
                         const setup::RunResult& result, Time run_begin, StopSignals* stop_signals,
                         setup::Screen* screen) {
  options.max_restarts = local.max_restarts;
  // Shard 0 reports progress twice a second. If shard 0 aborts the job, shard 0 may end up to two
  // heartbeats after the workers.
  options.max_report_delay = 2 * local.setup->timings.heartbeat + std::chrono::milliseconds(700);
  options.silence.end_after = local.setup->timings.dead_after + std::chrono::seconds(3);
  // Programs need not join at once. PyTorch alone takes seconds to start.
  const bool has_programs = options.members.back().spec.is_users_program;
  if (has_programs) options.start_notice_after = std::chrono::seconds(15);
  const std::string& where = options.members.front().spec.host;
  if (const std::string url = setup::PageUrl(local.job()); !url.empty())
    screen->PrintLine(Cat("the page of this job is ", url, where.empty() ? "" : ", on " + where));
  for (const std::string& warning : local.setup->job_warnings)
    screen->PrintLine("warning: " + warning);
  screen->SetChanges(setup::ChangesSinceLastRun(*local.setup));
  Supervisor supervisor(std::move(options), *stop_signals, *screen);
  TERN_RETURN_IF_ERROR(supervisor.Run());
  return ReportResult(local, supervisor, result, run_begin, screen);
}

}  // namespace tern::tools
