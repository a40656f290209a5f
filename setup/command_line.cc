#include "setup/command_line.h"

#include <fcntl.h>
#include <gflags/gflags.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "common/base/atomic_file.h"
#include "common/base/logging.h"
#include "common/base/text.h"

DEFINE_string(job, "", "");
DEFINE_int32(rank, -1, "");
DEFINE_bool(check, false, "");
DEFINE_string(evaluate, "", "");
DEFINE_int32(progress_fd, -1, "");

namespace tern::setup {

namespace {

// What may be said on the command line. Only these: gflags has flags of its own that end the
// process with 1.
struct KnownFlag {
  const char* name;
  const char* help;
};
const std::vector<KnownFlag> kFlags = {
    {"job", "FILE: the job, YAML, or protobuf text (.textproto, .pbtxt, .prototxt)"},
    {"rank", "N: which server shard or which worker of the job this is, from 0"},
    {"check", "read and check the job, print what it resolves to, and leave"},
    {"evaluate",
     "FILE: (a worker's) evaluate these weights on the test set, with no server, and leave"},
    {"log_dir", "DIR: for the logs; without it, output_dir/logs of the job"},
    {"progress_fd", "N: an open descriptor to write progress to, one JSON object a line"},
    {"v", "N: log what is marked with this level or a lower one"},
    {"vmodule", "NAME=N,...: the same by source file"},
};
constexpr const char* kSetHelp =
    "KEY=VALUE: a key of the job, over what the file says; again and again";

Status Fault(const std::string& sentence) {
  std::string known;
  for (const KnownFlag& flag : kFlags) known += Cat("--", flag.name, ", ");
  return Status(Code::kUsage, sentence + "; known flags: " + known + "--set, --help, --version");
}

void PrintHelp(const std::string& role) {
  std::printf("tern_%s: a Tern %s\n\n", role.c_str(), role.c_str());
  for (const KnownFlag& flag : kFlags) std::printf("  --%-12s %s\n", flag.name, flag.help);
  std::printf("  --%-12s %s\n  --help, --version\n", "set", kSetHelp);
}

// The words of a command line, one flag after the other.
class Words {
 public:
  Words(int argc, char** argv) : words_(argv + std::min(1, argc), argv + argc) {}

  bool done() const { return next_ >= words_.size(); }

  // Takes "--name=value", "--name value" or "--name"; what it is goes into name and value.
  Status Take() {
    const std::string word = words_[next_++];
    if (word.size() < 2 || word[0] != '-') {
      return Fault("'" + Printable(word) + "' is not a flag; the job file goes after --job");
    }
    const std::string text = word.substr(word.starts_with("--") ? 2 : 1);
    const size_t equals = text.find('=');
    name = text.substr(0, equals);
    value.reset();
    if (equals != std::string::npos) value = text.substr(equals + 1);
    return Ok();
  }
  // The value of the flag just taken, perhaps the next word.
  Status NeedValue() {
    if (value.has_value()) return Ok();
    if (done()) return Fault("--" + name + " needs a value after it");
    value = words_[next_++];
    return Ok();
  }

  std::string name;
  std::optional<std::string> value;

 private:
  const std::vector<std::string> words_;
  size_t next_ = 0;
};

Status SetFlag(Words* words) {
  const bool known = std::any_of(kFlags.begin(), kFlags.end(),
                                 [&](const KnownFlag& flag) { return words->name == flag.name; });
  gflags::CommandLineFlagInfo info;
  if (!known || !gflags::GetCommandLineFlagInfo(words->name.c_str(), &info)) {
    return Fault("there is no flag --" + Printable(words->name));
  }
  if (info.type == "bool") {
    words->value = words->value.value_or("true");
  } else {
    TERN_RETURN_IF_ERROR(words->NeedValue());
  }
  if (!gflags::SetCommandLineOption(words->name.c_str(), words->value->c_str()).empty())
    return Ok();
  return Status(Code::kUsage,
                Cat("--", words->name, ": saw '", Printable(*words->value),
                    "'; allowed: ", info.type == "bool" ? "true or false" : "a whole number"));
}

}  // namespace

Result<CommandLine> ParseCommandLine(int argc, char** argv, const std::string& role) {
  CommandLine line;
  for (Words words(argc, argv); !words.done();) {
    TERN_RETURN_IF_ERROR(words.Take());
    if (words.name == "help") {
      PrintHelp(role);
      std::exit(0);
    } else if (words.name == "version") {
      std::printf("tern_%s version %s\n", role.c_str(), TERN_VERSION);
      std::exit(0);
    } else if (words.name == "set") {
      TERN_RETURN_IF_ERROR(words.NeedValue());
      line.overrides.push_back(*words.value);
    } else {
      TERN_RETURN_IF_ERROR(SetFlag(&words));
    }
  }
  if (FLAGS_job.empty()) return Fault("--job FILE is missing");
  if (!FLAGS_evaluate.empty() && role != "worker")
    return Fault("--evaluate is for tern_worker, which reads the test set");
  if (!FLAGS_evaluate.empty() && FLAGS_rank < 0) FLAGS_rank = 0;
  if (FLAGS_rank < 0)
    return Fault("--rank N is missing: which " + role + " of the job this is, from 0");
  if (FLAGS_progress_fd >= 0 && fcntl(FLAGS_progress_fd, F_GETFD) < 0) {
    return Status(Code::kUsage, Cat("--progress_fd ", FLAGS_progress_fd,
                                    ": no descriptor is open under that number"));
  }
  line.job = FLAGS_job;
  line.rank = static_cast<uint32_t>(FLAGS_rank);
  line.check = FLAGS_check;
  line.evaluate = FLAGS_evaluate;
  line.log_dir = FLAGS_log_dir;
  line.progress_fd = FLAGS_progress_fd;
  return line;
}

Result<std::unique_ptr<Setup>> Begin(const CommandLine& line, const std::string& role,
                                     const std::function<Status(const pb::Job&)>& before_writing) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond `ulimit -f` is an error of its write
  auto setup = MakeSetup(line.job, line.overrides);
  if (!setup.ok()) return setup;
  const pb::Job& job = (*setup)->job;
  const uint32_t count =
      role == "server" ? static_cast<uint32_t>(job.servers_size()) : job.workers().count();
  if (line.rank >= count) {
    return Status(Code::kBadJob,
                  Cat("--rank ", line.rank, ": the job has ", count, " ", role,
                      count == 1 ? "" : "s", ", so the rank is at most ", count - 1));
  }
  if (line.check) return setup;
  if (before_writing) TERN_RETURN_IF_ERROR(before_writing(job));
  TERN_RETURN_IF_ERROR(
      InitLogging("tern_" + role, Cat(role, ".", line.rank),
                  line.log_dir.empty() ? job.output_dir() + "/logs" : line.log_dir));
  LOG(INFO) << "the job as this " << role << " understands it:\n" << config::ToYaml(job);
  if (job.security() == pb::Job::none) {
    LOG(WARNING) << "security: none - nobody checks who the peers are; anyone who reaches the "
                    "ports may take part";
  }
  return setup;
}

Status WriteSummaryFile(const std::string& path, const std::string& line) {
  std::error_code ignored;  // the write says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const Status written = WriteFileAtomically(path, line + "\n");
  if (!written.ok()) LOG(ERROR) << written.message();
  return written;
}

Status EndOfProcess(const Status& status, const Status& written) {
  const bool in_order =
      status.ok() || status.code() == Code::kInterrupted || status.code() == Code::kTerminated;
  return in_order && !written.ok() ? written : status;
}

int Finish(const std::string& program, const Status& status) {
  if (status.ok()) return 0;
  if (google::IsGoogleLoggingInitialized()) {  // else glog would say the sentence on stderr, too
    LOG(INFO) << "leaves with " << ExitCode(status) << ": " << status.message();
    google::FlushLogFiles(google::INFO);
  }
  std::fprintf(stderr, "%s: %s\n", program.c_str(), status.message().c_str());
  return ExitCode(status);
}

}  // namespace tern::setup
