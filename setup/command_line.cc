#include "setup/command_line.h"

#include <fcntl.h>
#include <gflags/gflags.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/armed_failpoints.h"
#include "common/base/atomic_file.h"
#include "common/base/logging.h"
#include "common/base/output_file.h"
#include "common/base/text.h"
#include "common/net/zmq_version.h"
#include "setup/json_log.h"
#include "setup/none_reminder.h"
#include "setup/security.h"

DEFINE_string(job, "", "");
DEFINE_int32(rank, -1, "");
DEFINE_bool(check, false, "");
DEFINE_string(evaluate, "", "");
DEFINE_int32(progress_fd, -1, "");
DEFINE_int32(keys_fd, -1, "");

namespace tern::setup {

namespace {

// A flag of the command line. Only the flags in kFlags are accepted, because some of gflags' own
// flags end the process with exit code 1.
struct KnownFlag {
  const char* name;
  const char* help;
};
const std::vector<KnownFlag> kFlags = {
    {"job", "FILE: the job, YAML, or protobuf text (.textproto, .pbtxt, .prototxt)"},
    {"rank", "N: the number of this server shard or worker in the job, from 0"},
    {"check", "read and check the job, print it with all defaults, and exit"},
    {"evaluate",
     "FILE: (worker only) evaluate these weights on the test set, without a server, and exit"},
    {"log_dir", "DIR: the folder of the logs; default: output_dir/logs of the job"},
    {"progress_fd",
     "N: an open file descriptor to which progress is written, one JSON object per line"},
    {"keys_fd", "N: an open file descriptor with this daemon's keys, which `tern run` makes"},
    {"v", "N: log messages up to this verbosity level"},
    {"vmodule", "NAME=N,...: the verbosity level of single source files"},
};
constexpr const char* kSetHelp = "KEY=VALUE: overrides a key of the job file; may be repeated";
constexpr const char* kFailHelp =
    "FAILPOINT: lets this process fail on purpose, for drills; may be repeated; --fail list "
    "describes them";

Status UsageError(const std::string& sentence) {
  std::string flags_text;
  for (const KnownFlag& flag : kFlags) flags_text += Cat("--", flag.name, ", ");
  return Status(Code::kUsage,
                sentence + "; known flags: " + flags_text + "--set, --fail, --help, --version");
}

void PrintHelp(const std::string& role) {
  std::printf("tern_%s: a Tern %s\n\n", role.c_str(), role.c_str());
  for (const KnownFlag& flag : kFlags) std::printf("  --%-12s %s\n", flag.name, flag.help);
  std::printf("  --%-12s %s\n", "set", kSetHelp);
  std::printf("  --%-12s %s\n  --help, --version\n", "fail", kFailHelp);
}

// Reads a command line flag by flag.
class ArgReader {
 public:
  ArgReader(int argc, char** argv) : args_(argv + std::min(1, argc), argv + argc) {}

  bool done() const { return next_index_ >= args_.size(); }

  // Reads "--name=value" or "--name" into name and value.
  Status Next() {
    const std::string arg = args_[next_index_++];
    if (arg.size() < 2 || arg[0] != '-') {
      return UsageError("'" + Printable(arg) + "' is not a flag; the job file goes after --job");
    }
    const std::string flag_text = arg.substr(arg.starts_with("--") ? 2 : 1);
    const size_t equals_at = flag_text.find('=');
    name = flag_text.substr(0, equals_at);
    value.reset();
    if (equals_at != std::string::npos) value = flag_text.substr(equals_at + 1);
    return Ok();
  }
  // Makes sure that the flag has a value: without "=value", the next argument becomes the value.
  Status RequireValue() {
    if (value.has_value()) return Ok();
    if (done()) return UsageError("--" + name + " needs a value after it");
    value = args_[next_index_++];
    return Ok();
  }

  std::string name;
  std::optional<std::string> value;

 private:
  const std::vector<std::string> args_;
  size_t next_index_ = 0;
};

// Reads the value of --fail into *line. "list" prints all failpoints and ends the process.
Status AddFailpoint(ArgReader* reader, const std::string& role, CommandLine* line) {
  TERN_RETURN_IF_ERROR(reader->RequireValue());
  if (*reader->value == "list") {
    std::printf("%s", DescribeFailpoints(role).c_str());
    std::exit(0);
  }
  Result<Failpoint> failpoint = ParseFailpoint(*reader->value, role);
  if (failpoint.ok()) line->failpoints.push_back(std::move(*failpoint));
  return failpoint.status();
}

Status SetFlag(ArgReader* reader) {
  const bool is_known = std::any_of(kFlags.begin(), kFlags.end(), [&](const KnownFlag& flag) {
    return reader->name == flag.name;
  });
  gflags::CommandLineFlagInfo flag_info;
  if (!is_known || !gflags::GetCommandLineFlagInfo(reader->name.c_str(), &flag_info)) {
    return UsageError("there is no flag --" + Printable(reader->name));
  }
  if (flag_info.type == "bool") {
    reader->value = reader->value.value_or("true");
  } else {
    TERN_RETURN_IF_ERROR(reader->RequireValue());
  }
  if (!gflags::SetCommandLineOption(reader->name.c_str(), reader->value->c_str()).empty())
    return Ok();
  return Status(Code::kUsage,
                Cat("--", reader->name, ": saw '", Printable(*reader->value),
                    "'; allowed: ", flag_info.type == "bool" ? "true or false" : "a whole number"));
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
  Result<net::Security> security = LoadSecurity(setup->job, self, line.keys_fd);
  if (!security.ok()) return security.status();
  if (security->mechanism != net::Security::Mechanism::kNull)
    setup->security = std::make_shared<net::Security>(std::move(*security));
  auto checkpoint_secret = LoadCheckpointSecret(setup->job);
  if (!checkpoint_secret.ok()) return checkpoint_secret.status();
  setup->checkpoint_secret = std::move(*checkpoint_secret);
  return Ok();
}

}  // namespace

Result<CommandLine> ParseCommandLine(int argc, char** argv, const std::string& role) {
  CommandLine line;
  for (ArgReader reader(argc, argv); !reader.done();) {
    TERN_RETURN_IF_ERROR(reader.Next());
    if (reader.name == "help") {
      PrintHelp(role);
      std::exit(0);
    } else if (reader.name == "version") {
      std::printf("tern_%s version %s, %s\n", role.c_str(), TERN_VERSION,
                  net::ZmqVersion().c_str());
      std::exit(0);
    } else if (reader.name == "set") {
      TERN_RETURN_IF_ERROR(reader.RequireValue());
      line.overrides.push_back(*reader.value);
    } else if (reader.name == "fail") {
      TERN_RETURN_IF_ERROR(AddFailpoint(&reader, role, &line));
    } else {
      TERN_RETURN_IF_ERROR(SetFlag(&reader));
    }
  }
  if (FLAGS_job.empty()) return UsageError("--job FILE is missing");
  if (!FLAGS_evaluate.empty() && role != "worker")
    return UsageError("--evaluate is for tern_worker, which reads the test set");
  if (!FLAGS_evaluate.empty() && FLAGS_rank < 0) FLAGS_rank = 0;
  if (FLAGS_rank < 0)
    return UsageError("--rank N is missing: the number of this " + role + " in the job, from 0");
  for (const auto& [name, fd] :
       {std::pair{"progress_fd", FLAGS_progress_fd}, std::pair{"keys_fd", FLAGS_keys_fd}}) {
    if (fd < 0 || fcntl(fd, F_GETFD) >= 0) continue;
    return Status(Code::kUsage,
                  Cat("--", name, " ", fd, ": no file descriptor with that number is open"));
  }
  line.job_path = FLAGS_job;
  line.rank = static_cast<uint32_t>(FLAGS_rank);
  line.check_only = FLAGS_check;
  line.weights_path = FLAGS_evaluate;
  line.log_dir = FLAGS_log_dir;
  line.progress_fd = FLAGS_progress_fd;
  line.keys_fd = FLAGS_keys_fd;
  return line;
}

Result<std::unique_ptr<Setup>> StartDaemon(
    const CommandLine& line, const std::string& role,
    const std::function<Status(const pb::Job&)>& before_writing) {
  RaiseFileLimit();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A write beyond `ulimit -f` then fails with an error.
  auto setup = MakeSetup(line.job_path, line.overrides);
  if (!setup.ok()) return setup;
  const pb::Job& job = (*setup)->job;
  const uint32_t num_ranks =
      role == "server" ? static_cast<uint32_t>(job.servers_size()) : job.workers().count();
  if (line.rank >= num_ranks) {
    return Status(Code::kBadJob,
                  Cat("--rank ", line.rank, ": the job has ", num_ranks, " ", role,
                      num_ranks == 1 ? "" : "s", ", so the rank is at most ", num_ranks - 1));
  }
  if (line.check_only) return setup;
  TERN_RETURN_IF_ERROR(CheckOutputFolder(job.output_dir()));
  if (line.weights_path.empty()) TERN_RETURN_IF_ERROR(LoadKeys(line, role, setup->get()));
  if (before_writing) TERN_RETURN_IF_ERROR(before_writing(job));
  LogOptions log_options{.program = "tern_" + role, .role = role, .rank = line.rank};
  log_options.log_dir = line.log_dir.empty() ? job.output_dir() + "/logs" : line.log_dir;
  if (job.metrics().log_format() == pb::Metrics::json) log_options.format = JsonLogLine;
  TERN_RETURN_IF_ERROR(InitLogging(log_options));
  LOG(INFO) << "the job as this " << role << " understands it:\n" << config::ToYaml(job);
  if (const std::string warning = WarningOfOpenFolder(job.output_dir()); !warning.empty())
    LOG(WARNING) << warning;
  if (job.security() == pb::Job::none) {
    LOG(WARNING) << kNoneWarning;
  }
  for (const Failpoint& failpoint : line.failpoints)
    LOG(WARNING) << "failpoint " << failpoint.text << " is on: this process fails on purpose";
  ArmFailpoints(line.failpoints);
  return setup;
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

int ReportExit(const std::string& program, const Status& status) {
  if (status.ok()) return 0;
  if (google::IsGoogleLoggingInitialized()) {  // otherwise LOG would print to stderr, too
    LOG(INFO) << "exits with code " << ExitCode(status) << ": " << status.message();
    google::FlushLogFiles(google::INFO);
  }
  std::fprintf(stderr, "%s: %s\n", program.c_str(), status.message().c_str());
  return ExitCode(status);
}

}  // namespace tern::setup
