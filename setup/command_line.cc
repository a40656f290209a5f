#include "setup/command_line.h"

#include <fcntl.h>
#include <gflags/gflags.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "common/algorithm/ranks.h"
#include "common/base/armed_failpoints.h"
#include "common/base/atomic_file.h"
#include "common/base/daemon_log.h"
#include "common/base/logging.h"
#include "common/base/output_file.h"
#include "common/base/terminal_line.h"
#include "common/base/text.h"
#include "common/base/threads.h"
#include "common/base/trace.h"
#include "setup/arguments.h"
#include "setup/daemon_def.h"
#include "setup/environment.h"
#include "setup/first_weights.h"
#include "setup/json_log.h"
#include "setup/key_files.h"
#include "setup/none_reminder.h"
#include "setup/security.h"

namespace tern::setup {

namespace {

constexpr uint32_t kMaxNumber = std::numeric_limits<int32_t>::max();
// In a trace, the first server has this number, and worker R the number R + 1.
constexpr uint32_t kFirstServerInTrace = 1001;

// Reads the values of --fail into *line. "list" prints all failpoints and ends the process.
Status AddFailpoints(const Arguments& arguments, const std::string& role, CommandLine* line) {
  for (const std::string& text : arguments.AllValues("fail")) {
    if (text == "list") {
      std::printf("%s", DescribeFailpoints(role).c_str());
      std::exit(0);
    }
    Result<Failpoint> failpoint = ParseFailpoint(text, role);
    if (!failpoint.ok()) return failpoint.status();
    line->failpoints.push_back(std::move(*failpoint));
  }
  return Ok();
}

// Sets the flag of glog.
Status SetLogFlags(const Arguments& arguments) {
  if (!arguments.HasFlag("v")) return Ok();
  const std::string value = arguments.LastValue("v");
  if (!gflags::SetCommandLineOption("v", value.c_str()).empty()) return Ok();
  return Status(Code::kUsage, Cat("--v: saw '", Printable(value), "'; allowed: a whole number"));
}

// Reads --rank, or the environment's, or 0 if weights are only evaluated.
Status ReadRank(const Arguments& arguments, const CommandDef& def, const std::string& role,
                CommandLine* line) {
  if (arguments.HasFlag("rank") || arguments.HasFlag("evaluate")) {
    const Result<uint32_t> rank =
        arguments.HasFlag("rank") ? arguments.NumberValue("rank", kMaxNumber) : 0;
    if (rank.ok()) line->rank = *rank;
    return rank.status();
  }
  const Environment environment = ProcessEnvironment();
  const auto rank = RankOf(environment);
  if (!rank.ok()) return rank.status();
  if (!rank->has_value()) {
    return UsageError(def, Cat("--rank N is missing: the number of this ", role,
                               " in the job, from 0; or set ", RankVariables(environment)));
  }
  line->rank = (*rank)->value;
  line->rank_source = (*rank)->variable;
  return Ok();
}

// Reads a flag with the number of an open file descriptor. -1 if it is missing.
Result<int> ReadDescriptor(const Arguments& arguments, const std::string& name) {
  if (!arguments.HasFlag(name)) return -1;
  const Result<uint32_t> number = arguments.NumberValue(name, kMaxNumber);
  if (!number.ok()) return number.status();
  const int fd = static_cast<int>(*number);
  if (fcntl(fd, F_GETFD) >= 0) return fd;
  return Status(Code::kUsage,
                Cat("--", name, " ", fd, ": no file descriptor with that number is open"));
}

// Lets this process open as many files as the system allows it. With the usual 1024, a server with
// many connections is out of them.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // Without success, the limit stays as it was.
}

// Sets the members of `setup` that come from key files.
Status LoadKeys(const CommandLine& line, const std::string& role, Setup* setup) {
  const net::Principal self{
      role == "server" ? net::Principal::Role::kShard : net::Principal::Role::kWorker, line.rank};
  if (setup->job.security() == pb::Job::curve) ForbidDumps();
  return SetKeys(self, line.keys_fd, setup);
}

}  // namespace

Result<CommandLine> ParseCommandLine(int argc, char** argv, const std::string& role,
                                     const std::string& version_text) {
  const CommandDef& def = DaemonDef(role);
  const auto arguments =
      Arguments::Parse(def, std::vector<std::string>(argv + std::min(1, argc), argv + argc));
  if (!arguments.ok()) return arguments.status();
  if (!arguments->help_text().empty()) {
    std::printf("%s", arguments->help_text().c_str());
    std::exit(0);
  }
  if (arguments->HasFlag("version")) {
    std::printf("%s", version_text.c_str());
    std::exit(0);
  }
  CommandLine line;
  TERN_RETURN_IF_ERROR(AddFailpoints(*arguments, role, &line));
  line.job_path =
      arguments->HasFlag("job") ? arguments->LastValue("job") : JobFileOf(ProcessEnvironment());
  if (line.job_path.empty())
    return UsageError(def, "--job FILE is missing, and TERN_JOB is not set");
  TERN_RETURN_IF_ERROR(ReadRank(*arguments, def, role, &line));
  const Result<int> progress_fd = ReadDescriptor(*arguments, "progress_fd");
  if (!progress_fd.ok()) return progress_fd.status();
  line.progress_fd = *progress_fd;
  const Result<int> keys_fd = ReadDescriptor(*arguments, "keys_fd");
  if (!keys_fd.ok()) return keys_fd.status();
  line.keys_fd = *keys_fd;
  const Result<uint32_t> trace_steps = arguments->NumberValue("trace", kMaxTraceSteps);
  if (!trace_steps.ok()) return trace_steps.status();
  line.trace_steps = *trace_steps;
  line.overrides = arguments->AllValues("set");
  line.check_only = arguments->HasFlag("check");
  if (arguments->HasFlag("evaluate")) line.weights_path = arguments->LastValue("evaluate");
  line.log_dir = arguments->LastValue("log_dir");
  TERN_RETURN_IF_ERROR(SetLogFlags(*arguments));
  return line;
}

Result<std::unique_ptr<Setup>> StartDaemon(
    const CommandLine& line, const std::string& role,
    const std::function<Status(const pb::Job&)>& before_writing) {
  RaiseFileLimit();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A write beyond `ulimit -f` then fails with an error.
  auto setup = role == "server" ? MakeSetupWithoutTensors(line.job_path, line.overrides)
                                : MakeSetup(line.job_path, line.overrides);
  if (!setup.ok()) return setup;
  const pb::Job& job = (*setup)->job;
  (*setup)->rank = line.rank;
  const uint32_t num_ranks =
      role == "server" ? static_cast<uint32_t>(job.servers_size()) : algorithm::NumRanks(job);
  if (line.rank >= num_ranks) {
    return Status(Code::kBadJob,
                  Cat(line.rank_source, " ", line.rank, ": the job has ", num_ranks, " ", role,
                      num_ranks == 1 ? "" : "s", ", so the rank is at most ", num_ranks - 1));
  }
  if (line.weights_path.empty() && !(*setup)->table.parameters.empty())
    TERN_RETURN_IF_ERROR(ReadGivenWeights(setup->get()));
  if (role == "server" && !(*setup)->plan.is_central) (*setup)->given_weights.reset();
  if (line.check_only) return setup;
  TERN_RETURN_IF_ERROR(CheckOutputFolder(job.output_dir()));
  if (line.weights_path.empty()) TERN_RETURN_IF_ERROR(LoadKeys(line, role, setup->get()));
  if (before_writing) TERN_RETURN_IF_ERROR(before_writing(job));
  LogOptions log_options{.program = "tern_" + role, .role = role, .rank = line.rank};
  log_options.log_dir = line.log_dir.empty() ? job.output_dir() + "/logs" : line.log_dir;
  if (job.metrics().log_format() == pb::Metrics::json) log_options.format = JsonLogLine;
  TERN_RETURN_IF_ERROR(InitLogging(log_options));
  LOG(INFO) << "rank " << line.rank << " from " << line.rank_source;
  for (const std::string& place_line : (*setup)->place_lines) LOG(INFO) << place_line;
  LOG(INFO) << "the job as this " << role << " understands it:\n" << config::ToYaml(job);
  if (role == "server" && line.rank == 0) {
    for (const std::string& warning : (*setup)->job_warnings) LOG(WARNING) << warning;
  }
  if (const std::string warning = WarningOfOpenFolder(job.output_dir()); !warning.empty())
    LOG(WARNING) << warning;
  if (job.security() == pb::Job::none) {
    LOG(WARNING) << kNoneWarning;
  }
  for (const Failpoint& failpoint : line.failpoints)
    LOG(WARNING) << "failpoint " << failpoint.text << " is on: this process fails on purpose";
  ArmFailpoints(line.failpoints);
  if (line.trace_steps != 0) {
    ArmTrace({.steps = line.trace_steps,
              .path = TracePath(job.output_dir(), role, line.rank),
              .process = Cat(role, " ", line.rank),
              .id = line.rank + (role == "server" ? kFirstServerInTrace : 1)});
  }
  return setup;
}

std::string TracePath(const std::string& output_dir, const std::string& role, uint32_t rank) {
  return Cat(output_dir, "/trace.", role, ".", rank, ".json");
}

Status WriteSummaryFile(const std::string& path, const std::string& line) {
  // If the folder cannot be created, the write below fails and reports it.
  (void)Disk().CreateFolders(std::filesystem::path(path).parent_path().string());
  const Status write_status = WriteFileAtomically(path, line + "\n");
  if (!write_status.ok()) LOG(ERROR) << write_status.message();
  return write_status;
}

Status FinalStatus(const Status& status, const Status& write_status) {
  const bool is_orderly_end =
      status.ok() || status.code() == Code::kInterrupted || status.code() == Code::kTerminated;
  return is_orderly_end && !write_status.ok() ? write_status : status;
}

Status FlushStdout() {
  const bool has_failed = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !has_failed) return Ok();
  const int error = errno;
  pollfd entry{STDOUT_FILENO, POLLOUT, 0};
  const bool reader_has_ended = poll(&entry, 1, 0) == 1 && (entry.revents & POLLERR) != 0;
  if (error == EPIPE || reader_has_ended) return Ok();
  return Status(Code::kCannotWrite, Cat("stdout: not all output could be written",
                                        error == 0 ? "" : Cat(" (", std::strerror(error), ")"),
                                        "; check that there is room for it"));
}

Status RunWithinMemory(const std::function<Status()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return Status(Code::kInternal, Cat("main thread: ", kOutOfMemory));
  }
}

int ReportExit(const std::string& program, const Status& run_status) {
  constexpr Time kPatience = std::chrono::seconds(2);
  const Status status = FinalStatus(FinalStatus(run_status, FlushStdout()), WriteTrace());
  if (!status.ok()) {
    if (LoggingIsInitialized())  // Otherwise LOG would print to stderr, too.
      LOG(INFO) << "exits with code " << ExitCode(status) << ": " << status.message();
    StderrLine().Print(Cat(program, ": ", status.message()));
  }
  StderrLine().Drain(kPatience);
  return status.ok() ? 0 : ExitCode(status);
}

}  // namespace tern::setup
